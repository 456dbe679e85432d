/** Holdfast's waiting room in front of your own routes. See README.md. */
export { Gatekeeper } from "./gatekeeper.mjs";
export { PublishedKeys } from "./keys.mjs";
export { edgeMiddleware, nodeMiddleware } from "./middleware.mjs";
