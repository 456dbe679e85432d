/** Runs edge/worker.js in the real runtime until its input closes: node run_worker.mjs WORKER MINIFLARE ORIGIN */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [worker, modules, origin] = process.argv.slice(2);
const { Miniflare } = createRequire(modules)("miniflare");
const runtime = new Miniflare({
  modules: true,
  script: readFileSync(worker, "utf8"),
  compatibilityDate: "2025-01-01",
  bindings: { ORIGIN: origin, ALLOWED_ORIGINS: "https://shop.example.com" },
  host: "127.0.0.1",
  port: 0,
  cf: false,
});
console.log(String(await runtime.ready));
process.stdin.resume();
process.stdin.on("end", async () => {
  await runtime.dispose();
  process.exit(0);
});
