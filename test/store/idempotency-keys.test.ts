import test from 'ava';
import {
	findKeyUses,
	type KeyUse,
	keyNameText,
	purgeIdempotencyKeys,
	releaseKeys,
	takeKeys,
} from '../../src/store/idempotency-keys.ts';
import type {Store} from '../../src/store/store.ts';
import {type Engine, storeTest} from '../helpers/databases.ts';
import {insertWorkspace} from '../helpers/messages.ts';

const time = (second: number) => `2026-06-09T10:00:${String(second).padStart(2, '0')}.000Z`;

async function useOf(store: Store): Promise<(key: string, second: number, fingerprint?: string) => KeyUse> {
	const {workspaceId} = await insertWorkspace(store);
	return (key, second, fingerprint = 'f') => ({
		workspaceId,
		mode: 'live',
		key,
		fingerprint,
		others: null,
		response: `"${key} ${second}"`,
		messageId: `msg_${second}`,
		createdAt: time(second),
	});
}

storeTest(test, 'a key can be used once, and again after it expired or was released', async (t, store) => {
	const use = await useOf(store);
	const take = (uses: readonly KeyUse[], before: string) =>
		store.writer.transaction(async trx => [...(await takeKeys(trx, uses, before))].toSorted());
	const [a, b, c] = [use('a b', 1), use("b'\\%", 2), use('c', 3)];
	t.deepEqual(await take([c, a], time(0)), [keyNameText(a), keyNameText(c)].toSorted());
	t.deepEqual(await take([a, b, {...c, mode: 'test'}], time(0)), [keyNameText(b), keyNameText({...c, mode: 'test'})]);
	const newer = use('a b', 9, 'g');
	t.deepEqual(await take([newer, use('c', 9)], time(1)), [keyNameText(newer)]);

	const known = await findKeyUses(store.reader, [a, c, use('d', 1)], time(2));
	t.deepEqual(known.get(keyNameText(a)), {fingerprint: 'g', others: null, response: '"a b 9"', messageId: 'msg_9'});
	t.deepEqual([...known.keys()].toSorted(), [keyNameText(a), keyNameText(c)].toSorted());
	t.deepEqual([...(await findKeyUses(store.reader, [a, c], time(3))).keys()], [keyNameText(a)]);

	await store.writer.transaction(trx => releaseKeys(trx, [a, b]));
	t.deepEqual(await store.reader('idempotency_keys').orderBy('mode').select('mode', 'key'), [
		{mode: 'live', key: 'c'},
		{mode: 'test', key: 'c'},
	]);
});

storeTest(test, 'purges old keys, oldest first and in limited numbers', async (t, store, engine) => {
	const use = await useOf(store);
	const uses = Array.from({length: 10}, (_, n) => use(`k${n}`, n));
	await store.writer.transaction(trx => takeKeys(trx, uses, ''));
	const purge = (before: string, limit: number) =>
		store.writer.transaction(trx => purgeIdempotencyKeys(trx, before, limit));
	const keys = () => store.reader('idempotency_keys').orderBy('key').pluck('key');
	t.is(await purge(time(5), 4), 4);
	t.deepEqual(await keys(), ['k4', 'k5', 'k6', 'k7', 'k8', 'k9']);
	t.is(await purge(time(5), 4), 2);
	t.is(await purge(time(5), 4), 0);
	t.deepEqual(await keys(), ['k6', 'k7', 'k8', 'k9']);
	for (const [plan, index] of await plans(store, engine, uses)) {
		t.regex(plan, index);
		t.notRegex(plan, /SCAN idempotency_keys(?! USING)|Seq Scan on idempotency_keys/);
	}
});

/** Returns the query plans of the purge and the lookup, each with the index it should use. */
async function plans(store: Store, engine: Engine, uses: readonly KeyUse[]): Promise<Array<[string, RegExp]>> {
	const plan: string[] = [];
	await store.writer.transaction(async trx => {
		if (engine === 'postgres') {
			// PostgreSQL would scan a table with few rows, so the scan is disabled.
			await trx.raw('set local enable_seqscan = off');
		}
		const asked: Array<{sql: string; bindings: readonly unknown[]}> = [];
		const listen = (query: {sql: string; bindings: readonly unknown[]}) => asked.push(query);
		trx.on('query', listen);
		await purgeIdempotencyKeys(trx, time(1), 5);
		await findKeyUses(trx, uses, time(1));
		trx.off('query', listen);
		for (const {sql, bindings} of asked) {
			const explain = engine === 'sqlite' ? 'explain query plan' : 'explain';
			const text = sql.replaceAll(/\$\d+/g, '?');
			const answer = await trx.raw(`${explain} ${text}`, [...bindings] as string[]);
			const rows: Array<Record<string, string>> = Array.isArray(answer) ? answer : answer.rows;
			plan.push(rows.map(row => row.detail ?? row['QUERY PLAN']).join('\n'));
		}
	});
	return [
		[plan[0] ?? '', /idempotency_keys_by_age/],
		[plan[1] ?? '', /idempotency_keys_pkey|sqlite_autoindex_idempotency_keys_1/],
	];
}
