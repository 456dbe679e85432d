// Generated from the endpoint table by `make docs`. Do not edit.

import type { Scope } from "./operate_2.js";
export interface Session {
  /** Null for the admin key. */
  key_id: string | null;
  name: string | null;
  scopes: Scope[];
  /** Null if a service key was sent instead. */
  expires_at: string | null;
}
