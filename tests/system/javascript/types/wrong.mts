// An application whose only mistake the compiler must find.
import { createClient } from "@halyard/web/client";

const client = createClient({ url: "https://flags.example.com", key: "hyd_c_1" });
const size: number = client.value("button", "blue");
console.log(size);
