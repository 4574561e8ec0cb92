// The values of a visitor, as both of the guide's functions return them.
import { bootstrap as bootstrapLocally } from "../../lib/flags";
import { bootstrap as bootstrapRemotely } from "../../lib/ofrep";

export async function GET(request) {
  const context = { targetingKey: request.nextUrl.searchParams.get("visitor") };
  return Response.json([await bootstrapLocally(context), await bootstrapRemotely(context)]);
}
