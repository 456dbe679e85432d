// Generated from the endpoint table by `make docs`. Do not edit.

export type RevocationKind = "buyer" | "token";

export interface Revocation {
  /** `buyer`: every token of a buyer. `token`: one token. */
  kind: RevocationKind;
  /** The buyer's ID (`sub`) or the token's (`jti`). */
  id: string;
  revoked_at: string;
  expires_at: string;
  reason: string | null;
  revoked_by: string;
}

export interface RevocationList {
  data: Revocation[];
}
