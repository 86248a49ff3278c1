-- Gives back what has not flowed back yet of units that take.lua has taken. It follows bucket.lua.
--
-- KEYS[1]: the record. ARGV: count, period, the parts that were taken, the debt after that, and its time.
-- Returns the time, the debt, and the parts that are given back.
--
-- The record keeps what was given back within 10 min from under units that had been taken since, `:from,to,parts`: what was taken in
-- between lies lower than it seems, by these parts.
local memory, most = 600000000, 6
local count, period, taken_at = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])
local bucket = read(KEYS[1], count, period)
if not bucket then return foreign(KEYS[1]) end
-- They are on top of the debt at that time, and flow back after it.
local owed, recent = left(tonumber(ARGV[4]), taken_at, count), {}
for from, to, parts in string.gmatch(bucket.given, ':(%d+),(%d+),(%d+)') do
  from, to, parts = from + 0, to + 0, parts + 0
  if from <= taken_at and taken_at <= to then owed = owed - parts end
  if to + memory >= now then recent[#recent + 1] = {from, to, parts} end
end
owed = math.max(owed, 0)
local parts = math.min(owed, tonumber(ARGV[3]))
local is_late = taken_at > now or taken_at + memory < now
local was_reset = bucket.reset > 0 and bucket.reset >= taken_at
-- A store that has forgotten them has less debt than that.
if not bucket.same or is_late or was_reset or bucket.debt < owed then parts = 0 end
if parts > 0 then
  local before = bucket.debt
  if before > owed then recent[#recent + 1] = {taken_at, now, parts} end
  if #recent > most then
    -- One that counts at least as much as both.
    local old = table.remove(recent, 1)
    local next = recent[1]
    recent[1] = {math.min(old[1], next[1]), math.max(old[2], next[2]), math.min(old[3] + next[3], 2 ^ 53 - 1)}
  end
  bucket.debt, bucket.void, bucket.given = before - parts, now, ''
  for _, one in ipairs(recent) do
    bucket.given = bucket.given .. string.format(':%.0f,%.0f,%.0f', one[1], one[2], one[3])
  end
  store(bucket, before)
end
return {now, bucket.debt, parts}
