import { InvalidSignature } from "./errors.js";

/** A CloudEvent. `id` is the same at every attempt: remember it to act once. */
export interface WebhookEvent {
  id: string;
  type: string;
  source: string;
  time: string;
  subject?: string;
  data: Record<string, unknown>;
}

const TOLERANCE_S = 300;

/** The event in `body`, which must be exactly the text that came. Throws `InvalidSignature`. For servers only. */
export async function verifyWebhook(
  body: string,
  headers: Headers | Record<string, string | string[] | undefined>,
  secret: string,
): Promise<WebhookEvent> {
  const given = headers instanceof Headers ? headers : new Headers();
  if (given !== headers) for (const [name, value] of Object.entries(headers)) given.set(name, String(value ?? ""));
  const id = given.get("webhook-id");
  const at = given.get("webhook-timestamp");
  const signatures = given.get("webhook-signature");
  if (!id || !at || !signatures) throw new InvalidSignature("A header of the signature is missing.");
  if (!(Math.abs(Date.now() / 1_000 - Number(at)) <= TOLERANCE_S)) throw new InvalidSignature("It was signed too long ago.");
  const key = await crypto.subtle.importKey(
    "raw", bytesOf(secret.replace(/^whsec_/, "")), { name: "HMAC", hash: "SHA-256" }, false, ["verify"],
  );
  const signed = new TextEncoder().encode(`${id}.${at}.${body}`);
  for (const one of signatures.split(" ")) {
    const [version, signature] = one.split(",");
    if (version !== "v1" || !signature) continue;
    if (await crypto.subtle.verify("HMAC", key, bytesOf(signature), signed)) return JSON.parse(body) as WebhookEvent;
  }
  throw new InvalidSignature("No signature is by this secret.");
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  } catch {
    throw new InvalidSignature("The secret or the signature is not base64.");
  }
}
