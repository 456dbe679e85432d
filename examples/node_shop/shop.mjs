/** A Node shop with a waiting room in front of its checkout: `node examples/node_shop/shop.mjs 8100`. No dependencies. */
import { createServer } from "node:http";
import { Gatekeeper, PublishedKeys, nodeMiddleware } from "../../clients/node-connect/index.mjs";

const ROOM = process.env.HOLDFAST_URL ?? "http://127.0.0.1:8000";
const SALE = process.env.SALE_ID ?? "demo";
const PORT = Number(process.argv[2] ?? 8100);

const gatekeeper = new Gatekeeper(SALE, new PublishedKeys(`${ROOM}/.well-known/jwks.json`), {
  paths: ["/checkout"],
  waitingUrl: `${ROOM}/s/${SALE}`,
  origin: process.env.SHOP_URL ?? `http://127.0.0.1:${PORT}`,
  // The signed-in user; a header stands in for your shop's session.
  buyerOf: (visit) => visit.header("x-shop-buyer"),
});
const guard = nodeMiddleware(gatekeeper);

const routes = {
  "/": () => ({ shop: "open to all" }),
  "/checkout": ({ holdfastPass: { buyerId, saleId } }) => ({ buyer: buyerId, sale: saleId }),
};

createServer((request, response) =>
  guard(request, response, (error) => {
    const route = routes[new URL(request.url, "http://shop").pathname];
    response.writeHead(error ? 500 : route ? 200 : 404, { "content-type": "application/json" });
    response.end(JSON.stringify(error ? { error: "internal" } : (route?.(request) ?? { error: "not found" })));
  }),
).listen(PORT, "127.0.0.1");
