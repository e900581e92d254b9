import {randomBytes} from 'node:crypto';
import test from 'ava';
import {type Daemon, type Program, prepareProgram} from '../helpers/daemon.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {startMx} from '../helpers/delivering-to.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {call, eachOf, openShop} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const messages = 400;
const mostSessions = 4;
// A node that is silent is taken for dead after 6 s where its connection has ended, else after 30 s.
const takeOverLimit = 180_000;

test('machines on one PostgreSQL: one takes mail in, others deliver, and one that dies is replaced', async t => {
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
		MAILCTL_MAX_SESSIONS: String(mostSessions),
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
	t.true(twice <= mostSessions, `${twice} came twice`);
});
