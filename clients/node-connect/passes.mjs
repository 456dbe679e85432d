/** Verifies a pass: signed with a published Ed25519 key, of the right kind, not expired. Nothing is taken from its header
    but the key's id: algorithm and kind are fixed here. */
const TYPE = "holdfast-pass";
const ALGORITHMS = new Set(["Ed25519", "EdDSA"]);
const SKEW_S = 30;
const MAX_TOKEN = 2_000;
/** A pass lasts a day at most. */
const MAX_LIFE_S = 86_460;

/** `{buyerId, saleId, passId, expiresAt}` if it is valid now, else null. */
export async function readPass(token, keys, nowS = Date.now() / 1000) {
  const parts = token.length <= MAX_TOKEN ? token.split(".") : [];
  if (parts.length !== 3) return null;
  const header = jsonOf(parts[0]);
  const isOurs = header?.typ === TYPE && ALGORITHMS.has(header.alg) && typeof header.kid === "string" && !header.crit;
  if (!isOurs) return null;
  const key = await keys.get(header.kid);
  const signature = bytesOf(parts[2]);
  if (key === null || signature === null) return null;
  const signed = new TextEncoder().encode(`${parts[0]}.${parts[1]}`);
  if (!(await crypto.subtle.verify({ name: "Ed25519" }, key, signature, signed))) return null;
  return passFrom(jsonOf(parts[1]), nowS);
}

export const isInTime = ({ expiresAt }, nowS = Date.now() / 1000) => nowS < expiresAt + SKEW_S;

function passFrom(claims, nowS) {
  const { sub, sale, jti, iat, exp } = claims ?? {};
  const hasNames = [sub, sale, jti].every((value) => typeof value === "string" && value !== "");
  if (!hasNames || !Number.isInteger(iat) || !Number.isInteger(exp)) return null;
  const isPossible = iat <= nowS + SKEW_S && exp > iat && exp - iat <= MAX_LIFE_S;
  const pass = Object.freeze({ buyerId: sub, saleId: sale, passId: jti, expiresAt: exp });
  return isPossible && isInTime(pass, nowS) ? pass : null;
}

function bytesOf(text) {
  if (!/^[\w-]*$/.test(text)) return null;
  try {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}

function jsonOf(text) {
  try {
    const value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(text)));
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
