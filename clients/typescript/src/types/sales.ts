// Generated from the endpoint table by `make docs`. Do not edit.

export interface PriceIn {
  /** In the smallest unit of the currency, for one unit. */
  amount: number;
  /** ISO 4217. */
  currency: string;
}

export type Checkout = "cart" | "instant";

export type PaymentKind = "external" | "sandbox" | "stripe" | "wallet";

/** What happens to orders that exceed the stock, because the total was lowered or never existed. */
export type OversellPolicy = "cancel_last" | "fulfil_first" | "report";

/** What follows the last payment that may be declined: the units return, or a person decides. */
export type AfterAttempts = "cancel" | "park";

/** How the sale's page looks. All of it is optional. */
export interface BrandIn {
  name?: string | null;
  logo_url?: string | null;
  accent?: string | null;
  /** A light colour. Dark mode has its own. */
  background?: string | null;
  message?: string | null;
}

export type RoomMode = "fifo" | "lottery" | "off";

export interface RoomIn {
  mode?: RoomMode;
  rate_per_second?: number;
  pass_seconds?: number;
  /** For a lottery: a public value that nobody can know before the sale opens, such as `drand main net, round 4321000`. The draw waits until an operator enters it. */
  beacon?: string | null;
}

export interface ProofOfWorkIn {
  /** Maximum attempts while demand is low; capped at what a phone can do. */
  cost: number;
}

export interface Brand {
  name: string | null;
  logo_url: string | null;
  accent: string | null;
  background: string | null;
  message: string | null;
}

export interface Price {
  amount: number;
  currency: string;
}

export interface Room {
  mode: RoomMode;
  rate_per_second: number;
  pass_seconds: number;
  beacon: string | null;
}

export interface ProofOfWork {
  cost: number;
}

/** A sale's lifecycle state. Buyers see its `Phase` instead. */
export type SaleState = "closed" | "loading" | "ready";

/** The state that buyers see. */
export type Phase = "all_held" | "ended" | "open" | "paused" | "sold_out" | "upcoming";

export interface OperatorSale {
  sale_id: string;
  sku_id: string;
  name: string;
  description: string | null;
  image_url: string | null;
  checkout_url: string | null;
  brand: Brand | null;
  locale: string | null;
  price: Price;
  starts_at: string;
  ends_at: string | null;
  per_buyer_limit: number | null;
  hold_seconds: number;
  max_hold_seconds: number;
  required_tier: number | null;
  payment_attempts_max: number;
  checkout: Checkout;
  payment: PaymentKind;
  room: Room;
  proof_of_work: ProofOfWork | null;
  drop_id: string | null;
  notify: boolean;
  state: SaleState;
  /** Why the sale cannot finish loading. */
  problem: string | null;
  paused: boolean;
  /** The phase that buyers see at /now. */
  phase: Phase;
  hold_budget: number | null;
  units_per_address: number | null;
  purchase_attempts_max: number | null;
  after_attempts: AfterAttempts;
  oversell_policy: OversellPolicy;
  review_above_percent: number;
  buffer_units: number;
  /** The number of units that can be delivered, if an operator declared a shortage. */
  deliverable_units: number | null;
  /** Null if the pool cannot be read now, like the counts. */
  total_units: number | null;
  available: number | null;
  held: number | null;
  sold: number | null;
  created_at: string;
  updated_at: string;
  opened_at: string | null;
  closed_at: string | null;
  /** The cell it is sold in; null without cells. */
  cell: string | null;
}

export interface SalePage {
  data: OperatorSale[];
  has_more: boolean;
  /** Cells that did not answer in time; the list lacks their items. */
  unavailable_cells?: string[];
}

/** What everyone may know. Service keys with the scope `sales` see the rest too. */
export interface Sale {
  sale_id: string;
  sku_id: string;
  name: string;
  description: string | null;
  image_url: string | null;
  checkout_url: string | null;
  brand: Brand | null;
  locale: string | null;
  price: Price;
  starts_at: string;
  ends_at: string | null;
  per_buyer_limit: number | null;
  hold_seconds: number;
  max_hold_seconds: number;
  required_tier: number | null;
  payment_attempts_max: number;
  checkout: Checkout;
  payment: PaymentKind;
  room: Room;
  proof_of_work: ProofOfWork | null;
  drop_id: string | null;
  notify: boolean;
}

export interface Lottery {
  seed_hash: string;
  /** Set after the draw. */
  seed?: string | null;
  /** Set once the list is closed. */
  entrants?: number | null;
  /** The digest of the closed list. */
  digest?: string | null;
  /** The public value that the draw waits for, as announced beforehand. */
  beacon_source?: string | null;
  /** That value. */
  beacon_value?: string | null;
  /** SHA-256 of the digest, a line feed, and the value or nothing. */
  beacon?: string | null;
  /** In a drop: what tickets, entries and the draw name in place of the sale. */
  line_id?: string | null;
}

export interface SoldOut {
  /** When the last unit was paid. */
  at: string;
  /** The time from the opening until then. */
  seconds: number;
  /** How many units were sold. */
  units: number;
  /** The last position in line that bought. Null without a line or in a drop. */
  last_position: number | null;
}

export interface Now {
  sale_id: string;
  state: Phase;
  available_hint: number | null;
  /** If all is held, when the next unit may come back. */
  next_return_at: string | null;
  opens_at: string;
  next_poll_ms: number;
  serving: number;
  joined: number;
  rate_per_second: number;
  /** Null where the order is not drawn. */
  lottery: Lottery | null;
  /** The summary of a sold-out sale. Null until then. */
  sold_out?: SoldOut | null;
}

export interface ChallengeFor {
  sale: string;
  /** A hash of the buyer it is for; empty if no token was sent. */
  buyer: string;
  /** 2: the harder one. */
  level?: number;
}

/** As ALTCHA's clients read it; the names are theirs. */
export interface ChallengeParameters {
  algorithm: string;
  /** Rounds of one attempt. */
  cost: number;
  keyLength: number;
  /** The prefix of the key whose number is sought. */
  keyPrefix: string;
  nonce: string;
  salt: string;
  keySignature: string;
  /** In seconds since 1970. */
  expiresAt: number;
  data: ChallengeFor;
}

export interface Challenge {
  parameters: ChallengeParameters;
  signature: string;
}
