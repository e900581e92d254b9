import test from 'ava';
import {systemClock} from '../../../src/kit/clock.ts';
import {createClaimWrite} from '../../../src/store/queue/claims.ts';
import {engines, newStore} from '../../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../../helpers/messages.ts';
import {notRunHere} from '../../helpers/not-run-here.ts';

test('concurrent claims of several nodes do not exceed a new source’s daily limit', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const store = await newStore(t, 'postgres');
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(
		store,
		workspaceId,
		Array.from({length: 40}, (_, n) => `user-${n}@a.test`),
	);
	const claims = Array.from({length: 4}, () =>
		createClaimWrite({dialect: store.dialect, boot: newId('req'), newId, clock: systemClock}),
	);
	const counts = await Promise.all(
		claims.map(({apply}) =>
			store.reader.transaction(async trx => {
				const [claimed] = await apply(trx, [
					{
						...{
							destination: 'a.test',
							workspaceId,
							limit: 5,
							newestFirst: false,
							lastsMs: 60_000,
							asksNext: false,
						},
						warmUp: {source: '192.0.2.1', group: 'big', day: '2026-11-23', perDay: 7},
					},
				]);
				return claimed?.recipients.length ?? 0;
			}),
		),
	);
	t.is(
		counts.reduce((sum, count) => sum + count, 0),
		7,
		counts.join(' '),
	);
});
