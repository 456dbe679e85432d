import assert from "node:assert/strict";
import { createServer, request as send } from "node:http";
import { after, before, test } from "node:test";
import { Gatekeeper, PublishedKeys, edgeMiddleware, nodeMiddleware } from "../index.mjs";

const encode = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const nowS = () => Math.floor(Date.now() / 1000);

async function newKey(kid) {
  const { privateKey, publicKey } = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  const { x } = await crypto.subtle.exportKey("jwk", publicKey);
  const sign = async (claims = {}, header = {}) => {
    const now = nowS();
    const body = { sub: "ada", sale: "drop", jti: "p1", iat: now, exp: now + 300, ...claims };
    const head = { alg: "Ed25519", kid, typ: "holdfast-pass", ...header };
    const signed = `${encode(head)}.${encode(body)}`;
    const signature = await crypto.subtle.sign({ name: "Ed25519" }, privateKey, Buffer.from(signed));
    return `${signed}.${Buffer.from(signature).toString("base64url")}`;
  };
  return { sign, jwk: { kty: "OKP", crv: "Ed25519", x, kid, alg: "Ed25519", use: "sig" } };
}

const WAITING = "https://room.example.com/s/drop";
const published = (keys, onFetch = () => {}) =>
  new PublishedKeys("https://room.example.com/.well-known/jwks.json", {
    fetch: async () => {
      onFetch();
      return Response.json({ keys: keys.map(({ jwk }) => jwk) });
    },
  });

let key, base, server, fetches = 0;

before(async () => {
  key = await newKey("k1");
  const keys = published([key], () => (fetches += 1));
  const guard = nodeMiddleware(new Gatekeeper("drop", keys, { paths: ["/checkout"], waitingUrl: WAITING }));
  server = createServer((request, response) =>
    guard(request, response, (error) => response.end(error ? String(error) : (request.holdfastPass?.buyerId ?? "anyone"))),
  );
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${server.address().port}`;
});

after(() => server.close());

const ask = (path, options = {}) => fetch(base + path, { redirect: "manual", ...options });

test("what is not guarded is open to all", async () => {
  for (const path of ["/", "/checkouts", "/shop/checkout"]) assert.equal(await (await ask(path)).text(), "anyone");
});

test("a request without a pass is told so, however its path is spelled", async () => {
  for (const path of ["/checkout", "/checkout/", "/checkout/pay?a=1", "/.//checkout", "/%63heckout", "/x/%2e%2e/checkout"]) {
    const answer = await ask(path);
    assert.equal(answer.status, 429, path);
    assert.equal((await answer.json()).reason, "admission_required");
  }
});

/** With the target exactly as given, which `fetch` would tidy up first. */
const askRaw = (path, headers = {}) =>
  new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: server.address().port, path, headers };
    send(options, (answer) => resolve(answer.resume())).on("error", reject).end();
  });

test("a target that a framework may route to a guarded handler needs a pass", async () => {
  const targets = [
    "/CHECKOUT", "/Checkout/pay", "/checkout#x", "/checkout/pay#?a=1", "http://x/checkout", "http://x/x/../CHECKOUT?a=1", "http://x/checkout#x",
    "/checkout/../x", "/checkout/%2e%2e/x", "/checkout/%zz/../../x", "/%63heckout/../x", "//x/checkout", "//checkout",
  ];
  for (const target of targets) assert.equal((await askRaw(target)).statusCode, 429, target);
  for (const target of ["/checkouts#x", "http://checkout/x", "/x?a=/checkout"]) assert.equal((await askRaw(target)).statusCode, 200, target);
});

test("a browser that sent an absolute target or a fragment returns to the plain path", async () => {
  for (const target of ["http://evil.example/checkout?a=1", "/checkout?a=1#x"]) {
    const { location } = (await askRaw(target, { accept: "text/html" })).headers;
    assert.equal(location, `${WAITING}?return_to=%2Fcheckout%3Fa%3D1`, target);
  }
});

test("a browser without a pass is sent to the room and back", async () => {
  const answer = await ask("/checkout/pay?item=1&x=2", { headers: { accept: "text/html" } });
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get("location"), `${WAITING}?return_to=%2Fcheckout%2Fpay%3Fitem%3D1%26x%3D2`);
});

test("a pass in a header or a cookie opens, and keys are fetched once", async () => {
  const token = await key.sign();
  for (const headers of [{ "holdfast-pass": token }, { cookie: `a=b; holdfast_pass=${token}` }, { cookie: `__Host-holdfast_pass=${token}` }]) {
    assert.equal(await (await ask("/checkout", { headers })).text(), "ada");
  }
  assert.equal(fetches, 1);
});

test("a visitor who returns has the pass in a cookie and a plain URL", async () => {
  const token = await key.sign();
  const back = await ask("/checkout?item=1&holdfast_return=1", { method: "POST", body: new URLSearchParams({ holdfast_pass: token }) });
  assert.equal(back.status, 303);
  assert.equal(back.headers.get("location"), "/checkout?item=1");
  assert.match(back.headers.get("set-cookie"), /^holdfast_pass=[\w.-]+; Path=\/; Max-Age=(29\d|300); HttpOnly; SameSite=Lax$/);
});

test("a bad pass is not returned to the room again", async () => {
  for (const token of [await key.sign({ sale: "other" }), "x", "x".repeat(5_000), ""]) {
    const refused = await ask("/checkout?holdfast_return=1", { method: "POST", body: new URLSearchParams({ holdfast_pass: token }) });
    assert.equal(refused.status, 403);
    assert.equal(refused.headers.get("set-cookie"), null);
  }
});

test("a bad pass is no pass", async () => {
  const other = await newKey("k1");
  const now = nowS();
  const bad = {
    "alg none": await key.sign({}, { alg: "none" }),
    "another kind": await key.sign({}, { typ: "holdfast-ticket" }),
    "no key id": await key.sign({}, { kid: undefined }),
    "foreign key under a known id": await other.sign(),
    "foreign key id": await (await newKey("theirs")).sign(),
    "no expiry": await key.sign({ exp: undefined }),
    "expiry far away": await key.sign({ exp: now + 1e8 }),
    expired: await key.sign({ iat: now - 600, exp: now - 60 }),
    "from the future": await key.sign({ iat: now + 600, exp: now + 700 }),
    "expiry as text": await key.sign({ exp: "9999999999" }),
    "another sale": await key.sign({ sale: "other" }),
    "no buyer": await key.sign({ sub: "" }),
    "cut": (await key.sign()).slice(0, -8),
    "not a token": "a.b.c",
  };
  for (const [name, token] of Object.entries(bad)) {
    assert.equal((await ask("/checkout", { headers: { "holdfast-pass": token } })).status, 429, name);
  }
});

test("without keys nobody is let in", async () => {
  const keys = new PublishedKeys("https://room.example.com/jwks.json", { fetch: async () => new Response("", { status: 503 }) });
  const guard = edgeMiddleware(new Gatekeeper("drop", keys));
  const { response } = await guard(new Request("https://shop.example.com/", { headers: { "holdfast-pass": await key.sign() } }));
  assert.equal(response.status, 503);
});

test("at the edge: by TLS the cookie is of this host alone, and a return never leaves the shop", async () => {
  const origin = "https://shop.example.com";
  const guard = edgeMiddleware(new Gatekeeper("drop", published([key]), { waitingUrl: WAITING, origin }));
  for (const path of ["//evil.example", "/\\evil.example", "/%5cevil.example", "/%2f%2fevil.example", "/a"]) {
    const body = new URLSearchParams({ holdfast_pass: await key.sign() });
    const { response } = await guard(new Request(`${origin}${path}?holdfast_return=1`, { method: "POST", body }));
    assert.match(response.headers.get("location"), /^\/[^/\\]/);
    assert.match(response.headers.get("set-cookie"), /^__Host-holdfast_pass=.*; Secure$/);
  }
  const { response } = await guard(new Request(`${origin}/a?b=1`, { headers: { accept: "text/html" } }));
  assert.equal(response.headers.get("location"), `${WAITING}?return_to=${encodeURIComponent(`${origin}/a?b=1`)}`);
});

test("a pass of another buyer is refused where the shop knows its buyers", async () => {
  const guard = edgeMiddleware(new Gatekeeper("drop", published([key]), { buyerOf: (visit) => visit.header("x-buyer") }));
  const ask = async (buyer) =>
    guard(new Request("https://shop.example.com/", { headers: { "holdfast-pass": await key.sign(), "x-buyer": buyer } }));
  assert.equal((await ask("ada")).pass.buyerId, "ada");
  assert.equal((await ask("eve")).response.status, 429);
});
