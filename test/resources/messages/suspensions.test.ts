import {randomBytes} from 'node:crypto';
import test from 'ava';
import {systemClock} from '../../../src/kit/clock.ts';
import {storeTime} from '../../../src/kit/time.ts';
import {resumeDestination, suspendDestination} from '../../../src/resources/messages/queue.ts';
import {performIn} from '../../../src/resources/operation.ts';
import {readGeneration} from '../../../src/store/changes.ts';
import {listSiteSuspensions, listSuspensions} from '../../../src/store/queue/open-recipients.ts';
import {sqliteTest} from '../../helpers/databases.ts';
import {newId} from '../../helpers/messages.ts';
import {everywhere, testOperator} from '../../helpers/tools.ts';

const context = everywhere({clock: systemClock, newId, random: randomBytes, operator: testOperator});
const destination = 'x.test';

sqliteTest(test, 'a second suspension keeps the time and replaces the reason; both are recorded', async (t, store) => {
	const suspend = (reason: string) =>
		store.writer.transaction(trx =>
			performIn(suspendDestination, {...context, trx}, {domain: destination, reason}),
		);
	const before = await readGeneration(store.reader);
	const first = await suspend('full');
	const second = await suspend('still full');
	t.deepEqual(second, {...first, reason: 'still full'});
	t.deepEqual(await listSuspensions(store.reader), [second]);
	t.is(await readGeneration(store.reader), before + 2);
	const audit = await store.reader('audit').orderBy('id');
	t.is(audit.length, 2);
	t.like(audit[1], {
		action: 'queue.suspended',
		target: destination,
		workspace_id: null,
		...{actor: 'cli:ann', origin: 'desk.example'},
	});
	t.deepEqual(JSON.parse(audit[1].detail), {reason: 'still full'});
});

sqliteTest(test, 'resume lifts both the operator’s suspension and that of the provider', async (t, store) => {
	const {transaction} = store.writer;
	const suspended = {domain: destination, reason: 'full'};
	const resume = () => transaction(trx => performIn(resumeDestination, {...context, trx}, {domain: destination}));
	const before = await readGeneration(store.reader);
	t.deepEqual(await resume(), {suspension: undefined, sites: [], isResumed: false});
	t.is((await store.reader('audit')).length, 0);
	t.is(await readGeneration(store.reader), before);
	await transaction(trx => performIn(suspendDestination, {...context, trx}, suspended));
	const now = storeTime(Date.now());
	const until = storeTime(Date.now() + 3_600_000);
	const site = {site: 'mx.x.test', suspended_until: until, reason: 'refused', step: 3, window: 2, updated_at: now};
	await store.database('sites').insert([site, {...site, site: 'mx.y.test'}]);
	const wait = {node: 'req_1', site: site.site, waits_for: 'suspension', detail: '', updated_at: now};
	await store.database('lane_waits').insert([
		{...wait, destination, workspace_id: 'ws_1'},
		{...wait, destination, workspace_id: 'ws_2'},
		{...wait, destination: 'y.test', workspace_id: 'ws_1', site: 'mx.y.test'},
	]);
	t.is((await listSiteSuspensions(store.reader, now)).length, 2);
	t.like(await resume(), {suspension: {destination, reason: 'full'}, sites: ['mx.x.test']});
	t.deepEqual(
		(await listSiteSuspensions(store.reader, storeTime(Date.now()))).map(each => each.site),
		['mx.y.test'],
	);
	const resumed = await store.reader('sites').where({site: site.site}).first();
	t.is(resumed.suspended_until, resumed.resumed_at);
	t.deepEqual(await listSuspensions(store.reader), []);
	t.deepEqual(await resume(), {suspension: undefined, sites: [], isResumed: false});
});
