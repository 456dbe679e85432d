// Runs ../contract.json, the scenarios that every client must pass, against the server at HOLDFAST_URL.
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client, Problem } from "../dist/index.js";

const { HOLDFAST_URL, HOLDFAST_SERVICE_KEY, HOLDFAST_BUYER_SECRET, HOLDFAST_CONTRACT } = process.env;
const { scenarios } = JSON.parse(readFileSync(HOLDFAST_CONTRACT, "utf8"));

for (const scenario of scenarios) {
  test(scenario.name, async () => {
    const saved = { run: randomUUID().slice(0, 8) };
    for (const step of scenario.steps) await runStep(filled(step, saved), saved);
  });
}

async function runStep(step, saved) {
  const client = new Client(HOLDFAST_URL, { key: keyOf(step.as), timeoutMs: 60_000 });
  const path = step.path ?? (step.wait_for ? [step.wait_for] : []);
  const act = () => client[camel(step.call ?? step.each ?? "wait_for")](...path, ...(step.args ? [step.args] : []));
  if (step.problem) return assert.rejects(act(), (error) => checkProblem(error, step));
  if (step.each) {
    const items = [];
    for await (const item of act()) items.push(item);
    return assert.equal(items.length, step.items);
  }
  const answer = await act();
  if (step.expect === null) assert.equal(answer, null);
  for (const [field, value] of Object.entries(step.expect ?? {})) assert.deepEqual(answer[field], value, `${step.call}: ${field}`);
  for (const [name, place] of Object.entries(step.save ?? {})) saved[name] = place.split(".").reduce((found, part) => found[part], answer);
}

function checkProblem(error, step) {
  assert.ok(error instanceof Problem, String(error));
  assert.deepEqual([error.reason, error.status], [step.problem, step.status]);
  assert.equal(error.retryable, step.retryable ?? error.retryable);
  for (const [name, value] of Object.entries(step.members ?? {})) assert.deepEqual(error.members[name], value);
  return true;
}

function filled(part, saved) {
  if (typeof part === "string") return part.replace(/\{(\w+)\}/g, (whole, name) => saved[name] ?? whole);
  if (Array.isArray(part)) return part.map((one) => filled(one, saved));
  if (part === null || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, filled(value, saved)]));
}

function keyOf(who) {
  if (who === "anyone") return undefined;
  return who === "service" ? HOLDFAST_SERVICE_KEY : buyerToken(who);
}

function buyerToken(sub) {
  const encode = (part) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const signed = `${encode({ alg: "HS256", typ: "JWT" })}.${encode({ sub, exp: Math.floor(Date.now() / 1000) + 600 })}`;
  return `${signed}.${createHmac("sha256", HOLDFAST_BUYER_SECRET).update(signed).digest("base64url")}`;
}

function camel(name) {
  return name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}
