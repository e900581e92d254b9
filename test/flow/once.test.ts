import test from 'ava';
import {type Daemon, prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const queues = 16;
const sends = 300;
const kills = 2;

type Usage = {readonly accepted: number};
type Answer = {readonly id: string};

test('sends repeated with their idempotency key through kill -9 under load create one message each', async t => {
	const program = await prepareProgram(t, {MAILCTL_ROLES: 'api', MAILCTL_RATE_LIMIT: '0'});
	let daemon: Daemon | null = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const ids = new Map<number, Set<string>>();
	let [next, answered, repeats] = [0, 0, 0];

	/** Sends until it gets a response, as a client would, and once more. */
	const sendOnce = async (number: number) => {
		const seen = new Set<string>();
		ids.set(number, seen);
		for (let answers = 0; answers < 2; ) {
			const {url} = await waitFor('a daemon', () => daemon);
			const response = await fetch(`${url}/v1/messages`, {
				method: 'POST',
				headers: {
					authorization: `Bearer ${key}`,
					'content-type': 'application/json',
					'idempotency-key': `order ${number}`,
				},
				body: JSON.stringify({from, to: `u${number}@a.example`, templateId, data: {number}}),
			}).catch(() => null);
			const body = await response?.json().catch(() => null);
			if (body) {
				t.is(response?.status, 202, JSON.stringify(body));
				seen.add((body as Answer).id);
				answers++;
			} else {
				repeats++;
			}
		}
		answered++;
	};
	const load = Promise.all(
		Array.from({length: queues}, async () => {
			while (next < sends) {
				await sendOnce(next++);
			}
		}),
	);

	for (let kill = 1; kill <= kills; kill++) {
		await waitFor('answers', () => answered >= (kill * sends) / (kills + 1));
		const victim: Daemon | null = daemon;
		daemon = null;
		await victim?.kill();
		daemon = await program.serve();
	}
	await load;
	t.log(`${repeats} repeated after a kill`);
	t.true(repeats > 0);
	t.deepEqual(
		[...ids.values()].map(({size}) => size),
		Array.from({length: sends}, () => 1),
	);
	t.is(((await call(`${daemon?.url}/v1/usage`, key)).body as Usage).accepted, sends);
	t.is(await daemon?.stop(), 0);
});
