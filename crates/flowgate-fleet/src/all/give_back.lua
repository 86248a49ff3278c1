-- Gives back what has not flowed back yet of units that take.lua has taken. It follows bucket.lua.
--
-- KEYS[1]: the record. ARGV: count, period, the parts that were taken, the debt after that, its time, and how many parts had been given
-- back by then. Returns the time, the debt, and the parts that are given back.
local count, period, taken_at = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])
local bucket = read(KEYS[1], count, period)
if not bucket then return foreign(KEYS[1]) end
-- They are on top of the debt at that time, and flow back after it. What was given back since was below them, at worst.
local since = (bucket.given + 2 ^ 52 - ARGV[6]) % 2 ^ 52
local owed = math.max(left(tonumber(ARGV[4]), taken_at, count) - since, 0)
local parts = math.min(owed, tonumber(ARGV[3]), 2 ^ 52)
local was_reset = bucket.reset > 0 and bucket.reset >= taken_at
-- A store that has forgotten them has less debt than that.
if not bucket.same or was_reset or taken_at > now or bucket.debt < owed then parts = 0 end
if parts > 0 then
  local before = bucket.debt
  bucket.debt, bucket.void, bucket.given = before - parts, now, (bucket.given + parts) % 2 ^ 52
  store(bucket, before)
end
return {now, bucket.debt, parts}
