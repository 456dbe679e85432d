package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres writes a batch with one prepared statement in one round trip, using arrays in the binary format.
type Postgres struct{ connections *pgxpool.Pool }

const postgresTables = `
	CREATE SCHEMA IF NOT EXISTS peer;
	CREATE TABLE IF NOT EXISTS peer.pools (sku_id text PRIMARY KEY, total bigint NOT NULL, available bigint NOT NULL CHECK (available >= 0)) WITH (fillfactor = 50);
	CREATE TABLE IF NOT EXISTS peer.reservations (
		reservation_id text PRIMARY KEY, sku_id text NOT NULL, owner_id text NOT NULL, idempotency_key text,
		quantity bigint NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), expires_at timestamptz NOT NULL
	);
	CREATE UNIQUE INDEX IF NOT EXISTS reservations_key ON peer.reservations (sku_id, owner_id, idempotency_key)
		WHERE idempotency_key IS NOT NULL;`

const grant = `
	WITH granted AS (
		INSERT INTO peer.reservations (reservation_id, sku_id, owner_id, idempotency_key, quantity, expires_at)
		SELECT id, $1, owner, key, quantity, expires
		FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::timestamptz[]) AS wanted (id, owner, key, quantity, expires)
	)
	UPDATE peer.pools SET available = $2 WHERE sku_id = $1`

func openPostgres(url string) (*Postgres, error) {
	connections, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, err
	}
	_, err = connections.Exec(context.Background(), postgresTables)
	return &Postgres{connections}, err
}

func (store *Postgres) Provision(sku string, counts Counts) error {
	_, err := store.connections.Exec(context.Background(), "INSERT INTO peer.pools VALUES ($1, $2, $3)", sku, counts.Total, counts.Available)
	return err
}

func (store *Postgres) Grant(sku string, granted []*Reservation, available int64) error {
	count := len(granted)
	ids, owners, keys := make([]string, count), make([]string, count), make([]pgtype.Text, count)
	quantities, expires := make([]int64, count), make([]time.Time, count)
	for number, each := range granted {
		ids[number], owners[number], quantities[number], expires[number] = each.ID, each.Owner, each.Quantity, each.ExpiresAt
		keys[number] = pgtype.Text{String: each.Key, Valid: each.Key != ""}
	}
	// pgx prepares a statement on first use and keeps it for the connection.
	_, err := store.connections.Exec(context.Background(), grant, sku, available, ids, owners, keys, quantities, expires)
	return err
}

func (store *Postgres) Load() (map[string]Counts, []Reservation, error) {
	pools := map[string]Counts{}
	var sku string
	var counts Counts
	rows, _ := store.connections.Query(context.Background(), "SELECT sku_id, total, available FROM peer.pools")
	if _, err := pgx.ForEachRow(rows, []any{&sku, &counts.Total, &counts.Available}, func() error {
		pools[sku] = counts
		return nil
	}); err != nil {
		return nil, nil, err
	}
	const words = "SELECT reservation_id, sku_id, owner_id, idempotency_key, quantity, expires_at FROM peer.reservations WHERE idempotency_key IS NOT NULL"
	rows, _ = store.connections.Query(context.Background(), words)
	keyed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Reservation])
	return pools, keyed, err
}
