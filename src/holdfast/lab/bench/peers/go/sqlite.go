package main

import (
	"database/sql/driver"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"
)

// SQLite uses one connection without database/sql. Rows are inserted with the largest prepared statement that fits.
type SQLite struct {
	mutex      sync.Mutex
	connection *sqlite3.SQLiteConn
	begin      driver.Stmt
	commit     driver.Stmt
	update     driver.Stmt
	inserts    []insert
}

type insert struct {
	rows      int
	statement driver.Stmt
}

const (
	columns     = 7
	insertWords = "INSERT INTO reservations (reservation_id, sku_id, owner_id, idempotency_key, quantity, created_at, expires_at) VALUES "
	rowWords    = "(?,?,?,?,?,?,?)"
)

const sqliteTables = `
	CREATE TABLE IF NOT EXISTS pools (sku_id TEXT PRIMARY KEY, total INTEGER NOT NULL, available INTEGER NOT NULL CHECK (available >= 0)) WITHOUT ROWID;
	CREATE TABLE IF NOT EXISTS reservations (
		reservation_id TEXT PRIMARY KEY, sku_id TEXT NOT NULL, owner_id TEXT NOT NULL, idempotency_key TEXT,
		quantity INTEGER NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
	) WITHOUT ROWID;
	CREATE UNIQUE INDEX IF NOT EXISTS reservations_key ON reservations (sku_id, owner_id, idempotency_key)
		WHERE idempotency_key IS NOT NULL;`

func openSQLite(path string) (*SQLite, error) {
	opened, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_cache_size=-65536")
	if err != nil {
		return nil, err
	}
	store := &SQLite{connection: opened.(*sqlite3.SQLiteConn)}
	if _, err := store.connection.Exec(sqliteTables, nil); err != nil {
		return nil, err
	}
	for _, rows := range []int{64, 8, 1} {
		statement, err := store.connection.Prepare(insertWords + strings.Repeat(rowWords+",", rows-1) + rowWords)
		if err != nil {
			return nil, err
		}
		store.inserts = append(store.inserts, insert{rows, statement})
	}
	for words, into := range map[string]*driver.Stmt{
		"BEGIN IMMEDIATE": &store.begin,
		"COMMIT":          &store.commit,
		"UPDATE pools SET available = ? WHERE sku_id = ?": &store.update,
	} {
		if *into, err = store.connection.Prepare(words); err != nil {
			return nil, err
		}
	}
	return store, nil
}

func (store *SQLite) Provision(sku string, counts Counts) error {
	store.mutex.Lock()
	defer store.mutex.Unlock()
	_, err := store.connection.Exec("INSERT INTO pools VALUES (?, ?, ?)", []driver.Value{sku, counts.Total, counts.Available})
	return err
}

func (store *SQLite) Grant(sku string, granted []*Reservation, available int64) error {
	store.mutex.Lock()
	defer store.mutex.Unlock()
	if _, err := store.begin.Exec(nil); err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	values := make([]driver.Value, 0, store.inserts[0].rows*columns)
	for _, each := range store.inserts {
		for ; len(granted) >= each.rows; granted = granted[each.rows:] {
			values = values[:0]
			for _, row := range granted[:each.rows] {
				values = append(values, row.ID, sku, row.Owner, keyOrNull(row.Key), row.Quantity, now, row.ExpiresAt.UnixMilli())
			}
			if _, err := each.statement.Exec(values); err != nil {
				return err
			}
		}
	}
	if _, err := store.update.Exec([]driver.Value{available, sku}); err != nil {
		return err
	}
	_, err := store.commit.Exec(nil)
	return err
}

func keyOrNull(key string) driver.Value {
	if key == "" {
		return nil
	}
	return key
}

func (store *SQLite) Load() (map[string]Counts, []Reservation, error) {
	pools := map[string]Counts{}
	err := store.each("SELECT sku_id, total, available FROM pools", 3, func(row []driver.Value) {
		pools[row[0].(string)] = Counts{row[1].(int64), row[2].(int64)}
	})
	if err != nil {
		return nil, nil, err
	}
	var keyed []Reservation
	const words = "SELECT reservation_id, sku_id, owner_id, idempotency_key, quantity, expires_at FROM reservations WHERE idempotency_key IS NOT NULL"
	err = store.each(words, 6, func(row []driver.Value) {
		keyed = append(keyed, Reservation{
			row[0].(string), row[1].(string), row[2].(string), row[3].(string), row[4].(int64), time.UnixMilli(row[5].(int64)),
		})
	})
	return pools, keyed, err
}

func (store *SQLite) each(words string, width int, use func([]driver.Value)) error {
	rows, err := store.connection.Query(words, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	row := make([]driver.Value, width)
	for {
		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		use(row)
	}
}
