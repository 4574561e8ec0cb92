// The web site of the guide's application in React, on the port that the first argument names: `/` is the page
// without values from the server, and `/users/NAME` is what the guide's server renders.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

import { renderPage } from "./page.mjs";

const [port] = process.argv.slice(2);

async function answer({ url }, response) {
  const [, folder, name] = url.split("/");
  const isScript = url.endsWith(".js");
  response.setHeader("Content-Type", `text/${isScript ? "javascript" : "html"}; charset=utf-8`);
  if (isScript) response.end(await readFile(`public${url}`));
  else response.end(folder === "users" ? await renderPage(name) : await readFile("public/index.html"));
}

createServer(answer).listen(Number(port), "127.0.0.1", () => console.log("ready"));
