// When a call is sent again, and what else the client does by itself. No Holdfast server is needed.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { test } from "node:test";
import { Client, InvalidSignature, isProblem, NoAnswer, Problem, UnexpectedAnswer, Unreachable, verifyWebhook } from "../dist/index.js";

const RESERVATION = { reservation_id: "rsv_1", status: "active", of_the_future: 1 };
const LOST = { status: 0 };
const GRANTED = { status: 200, body: RESERVATION };
const problem = (status, reason, retryable, more = {}) => ({
  status, type: "application/problem+json", body: { title: "T", detail: "D", status, reason, retryable, ...more },
});
const BUSY = problem(503, "busy", true);
const UNKNOWN = problem(503, "outcome_unknown", true);

async function scripted(answers, act) {
  const received = [];
  const marks = [];
  const paths = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", () => {
      received.push(text ? JSON.parse(text) : null);
      marks.push(request.headers["holdfast-retry"]);
      paths.push(request.url);
      const told = answers.shift();
      if (told.status === 0) return request.socket.destroy();
      setTimeout(() => {
        response.writeHead(told.status, { "content-type": told.type ?? "application/json", "retry-after": "0", connection: "close" });
        response.end(typeof told.body === "string" ? told.body : JSON.stringify(told.body));
      }, told.afterMs ?? 0);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await act(new Client(`http://127.0.0.1:${server.address().port}/`, { key: "hf_1", firstPauseMs: 5 }), received, marks, paths);
  } finally {
    server.close();
  }
}

for (const url of ["127.0.0.1:8000", "localhost:8000", "ftp://shop.example", ""]) {
  test(`what is not the URL of a server is refused at once (${url || "nothing"})`, () => {
    assert.throws(() => new Client(url), /is not the URL of a server/);
  });
}

const reserve = (client) => client.reserve("sku", { owner_id: "ada", quantity: 1 });

for (const [name, trouble] of Object.entries({ lost: LOST, busy: BUSY, unknown: UNKNOWN, proxy: { status: 502, body: "<html>" } })) {
  test(`a reservation is sent again with the same key (${name})`, () =>
    scripted([trouble, trouble, GRANTED], async (client, received) => {
      assert.equal((await reserve(client)).reservation_id, "rsv_1");
      assert.equal(received.length, 3);
      assert.equal(new Set(received.map((body) => body.idempotency_key)).size, 1);
    }));
}

const SETTLING = { status: 200, body: { ...RESERVATION, status: "settling" } };
const CONFIRMED = { status: 200, body: { ...RESERVATION, status: "confirmed" } };

test("waiting lets the server answer when something changes", () =>
  scripted([GRANTED, SETTLING, LOST, CONFIRMED], async (client, _received, _marks, paths) => {
    assert.equal((await client.waitFor("rsv_1", { timeoutMs: 15_900 })).status, "confirmed");
    const path = "/v1/reservations/rsv_1";
    assert.deepEqual(paths, [path, `${path}?wait=15`, `${path}?wait=15`, `${path}?wait=15`]);
  }));

test("a server without a place for a long poll is not asked without a pause", () =>
  scripted([SETTLING, SETTLING, SETTLING, SETTLING, CONFIRMED], async (client) => {
    const begun = Date.now();
    await client.waitFor("rsv_1");
    assert.ok(Date.now() - begun >= 470);
  }));

test("a retry with a key is marked as one, so that a proxy lets it through", () =>
  scripted([BUSY, LOST, GRANTED], async (client, _received, marks) => {
    await reserve(client);
    assert.deepEqual(marks, [undefined, "1", "1"]);
  }));

test("a retry without a key is not marked", () =>
  scripted([BUSY, GRANTED], async (client, _received, marks) => {
    await client.getReservation("rsv_1");
    assert.deepEqual(marks, [undefined, undefined]);
  }));

test("a long poll has the time it waits on top of the timeout", () =>
  scripted([{ ...GRANTED, afterMs: 400 }, { ...GRANTED, afterMs: 400 }], async (client) => {
    const hasty = client.with({ timeoutMs: 100, attempts: 1 });
    assert.equal((await hasty.getReservation("rsv_1", { wait: 2 })).reservation_id, "rsv_1");
    await assert.rejects(hasty.getReservation("rsv_1"), NoAnswer);
  }));

for (const trouble of [LOST, UNKNOWN]) {
  test("what may not be done twice is not sent again if it may have been done", () =>
    scripted([trouble], async (client, received) => {
      await assert.rejects(client.createKey({ name: "suite", scopes: ["read"] }), (error) => error instanceof NoAnswer || error instanceof Problem);
      assert.equal(received.length, 1);
    }));
}

test("what may not be done twice is sent again if the server says nothing was changed", () =>
  scripted([BUSY, { status: 201, body: { key: "hf_2" } }], async (client) => {
    assert.equal((await client.createKey({ name: "suite", scopes: ["read"] })).key, "hf_2");
  }));

test("a refusal that time does not change is thrown at once, with its members", () =>
  scripted([problem(409, "sold_out", false, { available: 0 })], async (client) => {
    await assert.rejects(reserve(client), (error) => isProblem(error, "sold_out") && error.members.available === 0);
  }));

test("an answer that is not of Holdfast is said to be so", () =>
  scripted([{ status: 200, body: "<html>" }], async (client) => assert.rejects(reserve(client), UnexpectedAnswer)));

test("a server that is not there is unreachable", async () => {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  await new Promise((resolve) => server.close(resolve));
  await assert.rejects(new Client(url, { attempts: 2, firstPauseMs: 1 }).live(), Unreachable);
});

test("a webhook is read only if it is signed and fresh", async () => {
  const secret = `whsec_${Buffer.from("secret of thirty-two bytes, or so").toString("base64")}`;
  const body = JSON.stringify({ id: "e1", type: "order.confirmed", data: { order_id: "ord_1" } });
  const headers = (at, text = body) => {
    const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`m1.${at}.${text}`).digest("base64");
    return { "webhook-id": "m1", "webhook-timestamp": String(at), "webhook-signature": `v1,AAAA v1,${mac}` };
  };
  const now = Math.floor(Date.now() / 1000);
  assert.equal((await verifyWebhook(body, headers(now), secret)).data.order_id, "ord_1");
  for (const wrong of [headers(now - 301), headers(now, "{}"), {}]) await assert.rejects(verifyWebhook(body, wrong, secret), InvalidSignature);
});
