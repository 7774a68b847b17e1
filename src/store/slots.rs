//! Slots of the pace for mails that go out alone: which calls may be made when, by the buckets of the provider, of the
//! family and of the recipient's domain. Those of batches are in [`super::batches`].

/// The longest that a row is put aside for its bucket, in ms: a pace that was raised is noticed within it.
pub(super) const PACED_WAIT_MS_MAX: i64 = 900_000;

/// The openings with the buckets that each of them takes from, as a table `mine`: `place` (0 is the most urgent), the
/// attempt, the row, and name, interval and next free slot of its family's and of its domain's bucket; an interval of 0
/// is no bucket.
///
/// Parameters: openings, token, family intervals, domain interval.
macro_rules! mine {
    ($openings:literal, $token:literal, $families:literal, $domain:literal, $rows:literal) => {
        concat!(
            "mine AS MATERIALIZED (
               SELECT one.*,
                 coalesce((SELECT next_free_at FROM pace WHERE name = one.family_name), 0) AS family_free,
                 coalesce((SELECT next_free_at FROM pace WHERE name = one.domain_name), 0) AS domain_free
               FROM (SELECT j.key AS place, j.value ->> 'attempt' AS attempt, o.id AS id,
                   'family:' || o.family AS family_name, 'domain:' || o.domain_hash AS domain_name,
                   coalesce((SELECT f.value FROM json_each(",
            $families,
            ") f WHERE f.key = o.family), 0) AS family_every,
                   iif(o.domain_hash IS NULL, 0, ",
            $domain,
            ") AS domain_every
                 FROM json_each(",
            $openings,
            ") j JOIN outbox o ON o.id = j.value ->> 'id'
                 WHERE o.claim_token = ",
            $token,
            " AND o.status = 'processing' AND ",
            $rows,
            ") AS one)"
        )
    };
}

/// Rows that are looked at for each slot: the first of them whose buckets have room takes it. Fewer would leave slots
/// empty where slow buckets crowd; more would let the urgent be overtaken for longer.
macro_rules! looked_at {
    () => {
        "8"
    };
}

/// One attempt for each row that is still ours, has exactly these bytes sealed, and gets a slot in time.
///
/// Each row is given a guess, the later of two: when its family and its domain have room, by its rank in them, and when
/// the provider has, by its place in the order; and a better one with its place among the guesses. The rows are walked in
/// the order of the last guess, the next few side by side: of them goes the one that may first, so that one that waits for
/// its own bucket leaves the slot to another. The walk carries when each bucket is free, and gives a row the first moment
/// at which all three have room: exact, whatever mixes. A row whose moment comes too late takes nothing, and holds nobody
/// back.
/// ?1 openings, ?2 token, ?3 now, ?4 provider, ?5 interval, ?6 longest wait, ?7 family intervals, ?8 domain interval
pub(super) const OPEN: &str = concat!(
    "INSERT INTO attempts (id, outbox_id, claim_token, opened_at, planned_at)
  WITH RECURSIVE ",
    mine!(
        "?1",
        "?2",
        "?7",
        "?8",
        "o.seal_sha256 = j.value ->> 'sha256'
           AND EXISTS (SELECT 1 FROM seals s WHERE s.outbox_id = o.id AND s.sha256 = o.seal_sha256)"
    ),
    ",
  begins (at) AS MATERIALIZED (
    SELECT max(?3, coalesce((SELECT next_free_at FROM pace WHERE name = ?4), 0))),
  of_family AS MATERIALIZED (
    SELECT mine.*, iif(family_every = 0, 0, max(?3, family_free)
        + family_every * (row_number() OVER (PARTITION BY family_name ORDER BY place) - 1)) AS family_at FROM mine),
  of_both AS MATERIALIZED (
    SELECT max(family_at, iif(domain_every = 0, 0, max(?3, domain_free) + domain_every * (row_number() OVER
        (PARTITION BY domain_name ORDER BY max(family_at, begins.at + ?5 * place), place) - 1))) AS own_at, of_family.*
    FROM of_family, begins),
  ranked AS MATERIALIZED (
    SELECT of_both.*, row_number() OVER (ORDER BY max(own_at, begins.at + ?5 * place), place) - 1 AS rank
    FROM of_both, begins),
  guessed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY max(own_at, begins.at + ?5 * rank), place) AS turn,
      '$.f' || dense_rank() OVER (ORDER BY family_name) AS in_families,
      '$.d' || dense_rank() OVER (ORDER BY domain_name) AS in_domains, ranked.*
    FROM ranked, begins),
  walk (attempt, id, at, provider_free, free, near, next) AS (
    SELECT NULL, NULL, NULL, begins.at, '{}', (SELECT json_group_array(json_array(turn, in_families, in_domains,
        family_free * (family_every > 0), domain_free * (domain_every > 0))) FROM guessed WHERE turn <= ",
    looked_at!(),
    "), 1 + ",
    looked_at!(),
    " FROM begins
    UNION ALL
    SELECT g.attempt, g.id,
      iif(slot.value <= ?3 + ?6, slot.value, NULL),
      iif(slot.value <= ?3 + ?6, slot.value + ?5, walk.provider_free),
      iif(slot.value <= ?3 + ?6,
        json_set(walk.free, g.in_families, slot.value + g.family_every, g.in_domains, slot.value + g.domain_every),
        walk.free),
      iif(comes.turn IS NULL, json_remove(walk.near, '$[' || first.value || ']'),
        json_insert(json_remove(walk.near, '$[' || first.value || ']'), '$[#]', json_array(comes.turn,
          comes.in_families, comes.in_domains, comes.family_free * (comes.family_every > 0),
          comes.domain_free * (comes.domain_every > 0)))),
      walk.next + 1
    FROM walk
      JOIN json_each(json_array((SELECT min(max(walk.provider_free,
          coalesce(walk.free ->> (n.value ->> 1), n.value ->> 3), coalesce(walk.free ->> (n.value ->> 2), n.value ->> 4))
          * ",
    looked_at!(),
    " + n.key) % ",
    looked_at!(),
    " FROM json_each(walk.near) n))) AS first
      JOIN guessed g ON g.turn = walk.near ->> ('$[' || first.value || '][0]')
      JOIN json_each(json_array(max(walk.provider_free,
        coalesce(walk.free ->> g.in_families, g.family_free * (g.family_every > 0)),
        coalesce(walk.free ->> g.in_domains, g.domain_free * (g.domain_every > 0))))) AS slot
      LEFT JOIN guessed comes ON comes.turn = walk.next)
  SELECT attempt, id, ?2, ?3, at FROM walk WHERE at IS NOT NULL
  ON CONFLICT (id) DO NOTHING"
);

/// The next batch's first slots come after the last ones given away here, bucket by bucket.
/// ?1 openings, ?2 token, ?3 provider, ?4 interval, ?5 family intervals, ?6 domain interval
pub(super) const TAKE_PACE: &str = concat!(
    "INSERT INTO pace (name, next_free_at)
  WITH ",
    mine!("?1", "?2", "?5", "?6", "true"),
    ",
  taken AS MATERIALIZED (SELECT mine.*, a.planned_at FROM mine JOIN attempts a ON a.id = mine.attempt
    WHERE a.claim_token = ?2)
  SELECT name, max(free_at) FROM (
    SELECT ?3 AS name, planned_at + ?4 AS free_at FROM taken WHERE ?4 > 0
    UNION ALL SELECT family_name, planned_at + family_every FROM taken WHERE family_every > 0
    UNION ALL SELECT domain_name, planned_at + domain_every FROM taken WHERE domain_every > 0) AS slots
  WHERE true GROUP BY name
  ON CONFLICT (name) DO UPDATE SET next_free_at = max(next_free_at, excluded.next_free_at)"
);

/// processing -> retry: the pace gave no slot in time. No try is burnt, and what ran alone runs alone again. The row waits
/// until its buckets have room for it, by its rank among those that are put aside; and longer each time it came in vain,
/// spread by its number, so that a crowd behind a slow bucket does not return all at once.
/// ?1 openings, ?2 token, ?3 now, ?4 provider, ?5 interval, ?6 family intervals, ?7 domain interval, ?8 longest wait
pub(super) const NO_SLOT: &str = concat!(
    "WITH ",
    mine!(
        "?1",
        "?2",
        "?6",
        "?7",
        "NOT EXISTS (SELECT 1 FROM attempts a WHERE a.outbox_id = o.id AND a.claim_token = ?2)"
    ),
    "
  UPDATE outbox SET
    status = 'retry', cause = 'paced', next_attempt_at = aside.until, relay_at = aside.until,
    claim_token = NULL, claim_expires_at = NULL, suspect = lone_claim, lone_claim = 0, updated_at = ?3
  FROM (SELECT id, ?3 + min(?8, max(room_at - ?3,
      iif(idle = 0, 1000, (15000 + id_spread) << min(6, idle - 1)))) AS until
    FROM (SELECT mine.id, max(
        coalesce((SELECT next_free_at FROM pace WHERE name = ?4), 0) + ?5 * (row_number() OVER (ORDER BY place) - 1),
        family_free + family_every * (row_number() OVER (PARTITION BY family_name ORDER BY place) - 1),
        domain_free + domain_every * (row_number() OVER (PARTITION BY domain_name ORDER BY place) - 1)) AS room_at,
        (waiting.seq * 7919) % 15000 AS id_spread,
        max(0, waiting.claim_count - waiting.attempt_count - 1) AS idle
      FROM mine JOIN outbox waiting ON waiting.id = mine.id)) AS aside
  WHERE outbox.id = aside.id"
);
