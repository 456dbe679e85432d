"""The tutorial's solution: FastAPI on uvicorn, a counter in Redis, one Lua script call per request.

The script is atomic, so it does not oversell; but its sales are lost when Redis loses its memory. The connection pool
is a blocking one, because the default fails under load with "Too many connections".
"""

import os
from uuid import uuid4

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from redis.asyncio import BlockingConnectionPool, Redis

from holdfast.lab.bench.baselines.lua_script import HOLD_SECONDS, RESERVE

pool = BlockingConnectionPool.from_url(os.environ["TUTORIAL_REDIS_URL"], max_connections=100, timeout=30)
redis = Redis(connection_pool=pool)
reserve_script = redis.register_script(RESERVE)
app = FastAPI()


class ReserveRequest(BaseModel):
    owner_id: str
    quantity: int


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@app.post("/inventory/{sku_id}/reserve")
async def reserve(sku_id: str, request: ReserveRequest) -> dict[str, str | int]:
    reservation_id = uuid4().hex
    keys = [f"stock:{sku_id}", f"hold:{sku_id}:{reservation_id}"]
    taken = await reserve_script(keys=keys, args=[request.quantity, request.owner_id, HOLD_SECONDS])
    if not taken:
        raise HTTPException(status_code=409, detail="sold out")
    return {
        "reservation_id": reservation_id,
        "sku_id": sku_id,
        "owner_id": request.owner_id,
        "quantity": request.quantity,
        "status": "active",
    }
