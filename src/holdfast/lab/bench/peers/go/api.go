package main

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	bodyMax = 16 << 10
	keyMax  = 255
	holdTTL = 30 * time.Minute
)

// API has the same paths and bodies as Holdfast's, so that the same load drives both.
type API struct {
	pools      *Pools
	serviceKey string
	tokens     *Tokens
}

func (api *API) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz/ready", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, struct{}{}) })
	mux.HandleFunc("PUT /v1/inventory/{sku}", api.service(api.putPool))
	mux.HandleFunc("GET /v1/inventory/{sku}/available", api.service(api.available))
	mux.HandleFunc("POST /v1/inventory/{sku}/reserve", api.service(api.reserve))
	mux.HandleFunc("POST /v1/sales", api.service(api.createSale))
	mux.HandleFunc("POST /v1/sales/{sale}/purchase", api.purchase)
	return mux
}

func (api *API) service(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(bearer(r)), []byte(api.serviceKey)) != 1 {
			refuse(w, 401, "unauthorized")
			return
		}
		handler(w, r)
	}
}

func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

type poolIn struct {
	TotalUnits int64 `json:"total_units"`
}

type poolOut struct {
	SKU       string `json:"sku_id"`
	Total     int64  `json:"total_units"`
	Available int64  `json:"available"`
	Held      int64  `json:"held"`
}

func (api *API) putPool(w http.ResponseWriter, r *http.Request) {
	var given poolIn
	if read(w, r, &given) {
		api.create(w, r.PathValue("sku"), given.TotalUnits, 200)
	}
}

func (api *API) createSale(w http.ResponseWriter, r *http.Request) {
	var given struct {
		SaleID     string `json:"sale_id"`
		TotalUnits int64  `json:"total_units"`
	}
	if read(w, r, &given) {
		api.create(w, given.SaleID, given.TotalUnits, 201)
	}
}

func (api *API) create(w http.ResponseWriter, sku string, total int64, status int) {
	pool, err := api.pools.create(sku, total)
	if err != nil {
		refuse(w, 503, "unavailable")
		return
	}
	reply(w, status, shown(pool))
}

func (api *API) available(w http.ResponseWriter, r *http.Request) {
	pool := api.pools.find(r.PathValue("sku"))
	if pool == nil {
		refuse(w, 404, "sku_not_found")
		return
	}
	reply(w, 200, shown(pool))
}

func shown(pool *Pool) poolOut {
	available := pool.available.Load()
	return poolOut{pool.sku, pool.total, available, pool.total - available}
}

type reservationOut struct {
	ID        string    `json:"reservation_id"`
	SKU       string    `json:"sku_id"`
	Owner     string    `json:"owner_id"`
	Quantity  int64     `json:"quantity"`
	Status    string    `json:"status"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (api *API) reserve(w http.ResponseWriter, r *http.Request) {
	var given struct {
		Owner    string `json:"owner_id"`
		Quantity int64  `json:"quantity"`
		TTL      int64  `json:"ttl_seconds"`
		Key      string `json:"idempotency_key"`
	}
	if !read(w, r, &given) {
		return
	}
	if given.Owner == "" || given.Quantity < 1 || len(given.Key) > keyMax {
		refuse(w, 422, "invalid_request")
		return
	}
	expires := time.Now().Add(time.Duration(given.TTL) * time.Second)
	wanted := Reservation{Owner: given.Owner, Key: given.Key, Quantity: given.Quantity, ExpiresAt: expires}
	api.decide(w, r.PathValue("sku"), wanted, 200)
}

func (api *API) purchase(w http.ResponseWriter, r *http.Request) {
	buyer := api.tokens.buyer(bearer(r))
	if buyer == "" {
		refuse(w, 401, "unauthorized")
		return
	}
	var given struct {
		Quantity int64 `json:"quantity"`
	}
	if !read(w, r, &given) {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if given.Quantity < 1 || key == "" || len(key) > keyMax {
		refuse(w, 422, "invalid_request")
		return
	}
	wanted := Reservation{Owner: buyer, Key: key, Quantity: given.Quantity, ExpiresAt: time.Now().Add(holdTTL)}
	api.decide(w, r.PathValue("sale"), wanted, 201)
}

func (api *API) decide(w http.ResponseWriter, sku string, wanted Reservation, created int) {
	pool := api.pools.find(sku)
	if pool == nil {
		refuse(w, 404, "sku_not_found")
		return
	}
	wanted.SKU = sku
	granted, replay := pool.Reserve(wanted)
	if granted == nil {
		refuse(w, 409, "sold_out")
		return
	}
	status := created
	if replay {
		status = 200
	}
	reply(w, status, reservationOut{granted.ID, sku, granted.Owner, granted.Quantity, "active", granted.ExpiresAt.UTC()})
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	if _, err := buffer.ReadFrom(io.LimitReader(r.Body, bodyMax)); err != nil || json.Unmarshal(buffer.Bytes(), into) != nil {
		refuse(w, 422, "invalid_request")
		return false
	}
	return true
}

func reply(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	write(w, status, encoded)
}

func refuse(w http.ResponseWriter, status int, reason string) {
	write(w, status, []byte(`{"reason":"`+reason+`"}`))
}

var jsonType = []string{"application/json"}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	w.Write(body)
}
