import {join} from 'node:path';
import test from 'ava';
import {openStore} from '../../../src/store/store.ts';
import {scaled} from '../../helpers/load-scale.ts';
import {startReceiver} from '../../helpers/receiver.ts';
import {waitFor} from '../../helpers/wait.ts';
import {certificate, clientOf, deadHost, prepare} from '../../helpers/webhook-lab.ts';
import {
	addEndpoints,
	delaysOf,
	healthyArrivals,
	recordedAt,
	residentOf,
	sendPaced,
	startReceivers,
} from '../../helpers/webhook-load.ts';

const counts = {healthy: 160, slow: 20, dead: 20};
/**
 * Long enough that slow endpoints need minutes for half of their events, more than healthy ones on a busy machine.
 */
const slowMs = 25_000;
const perSecond = 10;
const events = scaled(600);

test('20 dead and 20 slow endpoints out of 200 do not delay the healthy ones', async t => {
	t.timeout(600_000);
	const receivers = await startReceivers(certificate, slowMs);
	t.teardown(receivers.stop);
	const program = await prepare(t, {
		MAILCTL_WEBHOOK_BACKOFF: '1s',
		MAILCTL_WEBHOOK_TIMEOUT: '60s',
		MAILCTL_LOG_LEVEL: 'warn',
	});
	await program.cliBytes('init');
	const key = (await program.cli<{key: string}>('key', 'create', '--name', 'flow')).key;
	const [template] = await program.cli<Array<{id: string}>>('template', 'list');
	const dataDir = join(program.folder, 'data');
	const {slow, dead} = await addEndpoints(dataDir, counts, {port: receivers.port, deadHost});
	const daemon = await program.serve();
	const client = clientOf(daemon.url, {key, from: 'hello@example.com', templateId: template?.id ?? ''});

	const resident: number[] = [];
	const sent = await sendPaced(() => client.send('delivered@simulator.test'), {
		events,
		perSecond,
		onSent(n) {
			if (n % (events / 6) === 0) {
				resident.push(residentOf(daemon.pid));
			}
		},
	});
	const store = await openStore({file: join(dataDir, 'mailctl.db')});
	t.teardown(() => store.close());
	const recorded = await recordedAt(store, sent);
	const arrivals = await healthyArrivals(receivers, counts.healthy, events);
	const owed = await store
		.reader('webhook_deliveries')
		.whereIn('endpoint_id', slow)
		.whereNot({state: 'delivered'})
		.first(store.reader.raw('count(*) as n'));
	for (const [path, came] of Object.entries(arrivals)) {
		t.is(new Set(came.map(([messageId]) => messageId)).size, events, path);
	}
	t.true(Number(owed.n) > (events * counts.slow) / 2, `${owed.n} wait for the slow ones`);
	// How soon is a matter of the machine: `test/bench/webhooks.ts`.
	t.log(`after the record: ${delaysOf(arrivals, recorded).text} ms`);
	t.log(`resident after each sixth: ${resident.map(Math.round).join(', ')} MB`);
	t.true((resident.at(-1) ?? 0) - (resident[1] ?? 0) < 100, 'memory grows');

	const exhausted = async () => {
		const row = await store
			.reader('webhook_deliveries')
			.whereIn('endpoint_id', dead)
			.where({state: 'exhausted', attempts: 5})
			.first(store.reader.raw('count(*) as n'));
		return Number(row.n) === events * counts.dead;
	};
	await waitFor('all of the dead ones is exhausted', exhausted, 240_000);

	// One of them comes back: one delivery by the API, then all by the CLI.
	const [first = ''] = dead;
	const back = await startReceiver(t, certificate, {host: deadHost, port: receivers.port});
	const [newest] = await client.deliveries(first);
	t.like(await client.replay(newest?.id ?? ''), {status: 202, body: {status: 'pending', attempts: 0}});
	await back.count(1);
	t.like(await program.cli('webhook', 'replay', '--since', '1h', '--endpoint', first, '--status', 'exhausted'), {
		replayed: events - 1,
	});
	await back.count(events);
	t.is(await daemon.stop(), 0);
});
