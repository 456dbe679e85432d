-- A heap of the deadlines set within a batch, in the order of a sorted set: by time, then by id.

local function before(a, b)
  return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2])
end

local function heap_push(heap, entry)
  local at = #heap + 1
  heap[at] = entry
  while at > 1 do
    local parent = math.floor(at / 2)
    if not before(heap[at], heap[parent]) then return end
    heap[at], heap[parent] = heap[parent], heap[at]
    at = parent
  end
end

local function heap_pop(heap)
  local last = table.remove(heap)
  if #heap == 0 then return end
  heap[1] = last
  local at = 1
  while true do
    local least = at
    for child = 2 * at, 2 * at + 1 do
      if heap[child] and before(heap[child], heap[least]) then least = child end
    end
    if least == at then return end
    heap[at], heap[least] = heap[least], heap[at]
    at = least
  end
end
