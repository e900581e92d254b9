import {randomBytes} from 'node:crypto';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {type Daemon, type Program, prepareProgram} from '../helpers/daemon.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {startMx} from '../helpers/delivering-to.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {call, eachOf, openShop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const messages = 400;
const maxSessions = 4;
// A node that is silent is taken for dead after 6 s where its connection has ended, else after 30 s.
const takeOverLimit = 180_000;

test('nodes on one PostgreSQL: one accepts messages, others deliver, a dead one is replaced', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	t.timeout(600_000);
	const location = await newLocation(t, 'postgres');
	let stuck = 0;
	let dying: Daemon | null = null;
	const {mx, settings: lab} = await startMx(t, {
		// Until the first deliverer is killed nobody gets an answer, so that it dies with mail in its hands.
		dot() {
			if (dying !== null) {
				stuck++;
				return {do: 'never'};
			}
			return undefined;
		},
	});
	const settings = {
		...lab,
		MAILCTL_DATABASE_URL: 'url' in location ? location.url : '',
		MAILCTL_SECRET_KEY: randomBytes(32).toString('base64'),
		MAILCTL_MAX_SESSIONS: String(maxSessions),
		MAILCTL_MAKERS: '1',
	};
	const node = async (): Promise<Program> => await prepareProgram(t, settings);
	const front = await node();
	const shop = await openShop(front, 'test/fixtures/flow/templates');
	const api = await front.serve({MAILCTL_ROLES: 'api'});
	dying = await (await node()).serve({MAILCTL_ROLES: 'deliver,api'});

	const accepted: string[] = [];
	await eachOf(
		Array.from({length: messages}, (_, n) => `user-${n}@a.example`),
		16,
		async to => {
			const templateId = shop.templates.get('alert');
			const {status} = await call(`${api.url}/v1/messages`, shop.key, {from: shop.from, to, templateId});
			if (status === 202) {
				accepted.push(to);
			}
		},
	);
	t.is(accepted.length, messages);
	await waitFor('the deliverer holds mail', () => stuck > 0);
	await dying.kill();
	const held = stuck;
	dying = null;

	const heir = await (await node()).serve({MAILCTL_ROLES: 'deliver,api'});
	await waitFor(
		'every mail has arrived',
		() => new Set(mx.received.map(({to: [to]}) => to)).size === messages,
		takeOverLimit,
	);
	t.is(await heir.stop(), 0);
	t.is(await api.stop(), 0);
	const twice = mx.received.length - messages;
	t.log(`${messages} accepted, ${mx.received.length} arrived, ${held} sessions at the kill`);
	t.true(twice <= maxSessions, `${twice} came twice`);
});

test('writes are not blocked while a node waits for its leases', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const location = await newLocation(t, 'postgres');
	const program = await prepareProgram(t, {
		MAILCTL_DATABASE_URL: 'url' in location ? location.url : '',
		MAILCTL_SECRET_KEY: randomBytes(32).toString('base64'),
	});
	const {key} = await openShop(program, 'test/fixtures/flow/templates');
	const daemon = await program.serve();
	const store = await openStore(location);
	t.teardown(() => store.close());
	const other = await store.reader.transaction();
	t.teardown(() => (other.isCompleted() ? undefined : other.rollback()));
	await other.raw('lock table lease_terms in exclusive mode');
	const waiting = () =>
		store
			.reader('pg_stat_activity')
			.whereRaw("datname = current_database() and wait_event_type = 'Lock' and query like '%lease_terms%'")
			.first('pid', 'xact_start');
	const before = await waitFor('the node to wait for its leases', waiting);
	const {status} = await call(`${daemon.url}/v1/suppressions`, key, {recipient: 'gone@a.example'});
	t.is(status, 201);
	t.deepEqual(await waiting(), before, 'it still waits');
	await other.commit();
	t.is(await daemon.stop(), 0);
});
