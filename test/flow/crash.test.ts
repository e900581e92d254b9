import test from 'ava';
import {type Daemon, prepareProgram} from '../helpers/daemon.ts';
import {call, eachOf, openShop} from '../helpers/shop.ts';
import {startSink} from '../helpers/sink.ts';
import {waitFor} from '../helpers/wait.ts';

const kills = 10;
const maxSessions = 8;
const readyWithin = 3000;
const deliveredWithin = 60_000;
const senders = 16;
/** Accepted and not yet arrived, at most: the load must not become a backlog that a minute cannot clear. */
const ahead = 400;

/** The rounds of the daemon (0 before the first kill) in which each Message-ID arrived. */
type Arrivals = Map<string, number[]>;

test('ten times kill -9 under load: ready within 3 s, every 202 delivered, hardly a duplicate', async t => {
	let round = 0;
	let arrived = 0;
	const arrivals: Arrivals = new Map();
	const numbers = new Set<number>();
	const sink = await startSink(t, mail => {
		const head = mail.slice(0, mail.indexOf('\r\n\r\n'));
		const id = /^Message-ID: *(\S+)/im.exec(head)?.[1] ?? '';
		arrivals.set(id, [...(arrivals.get(id) ?? []), round]);
		numbers.add(Number(/^Subject: Alert (\d+)/im.exec(head)?.[1]));
		arrived++;
	});
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://127.0.0.1:${sink.port}?tls=none`,
		MAILCTL_RELAY_ACCEPT_MEANS: 'delivered',
		MAILCTL_MAX_SESSIONS: String(maxSessions),
		MAILCTL_RATE_LIMIT: '0',
	});
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	let daemon: Daemon | null = await program.serve();
	let sending = true;
	let next = 0;
	const accepted = new Map<number, string>();

	const send = async () => {
		const to = daemon && accepted.size - numbers.size < ahead ? daemon : null;
		if (!to) {
			await waitFor(
				'room for more mail',
				() => !sending || (daemon && accepted.size - numbers.size < ahead),
				deliveredWithin,
			);
			return;
		}

		const number = next++;
		const answer = await call(`${to.url}/v1/messages`, shop.key, {
			from: shop.from,
			to: `user${number}@mail.example`,
			templateId: shop.templates.get('alert'),
			data: {customer: {name: 'Ann'}, order: {number, placed_at: '2026-06-09T10:15:30Z'}},
		}).catch(() => null); // Killed while it answered: this send has no 202 and may be lost.
		if (answer) {
			t.is(answer.status, 202, JSON.stringify(answer.body));
			accepted.set(number, (answer.body as {id: string}).id);
		}
	};
	const load = Promise.all(
		Array.from({length: senders}, async () => {
			while (sending) {
				await send();
			}
		}),
	);

	for (let kill = 1; kill <= kills; kill++) {
		const goal: number = arrived + 100 + 37 * (kill % 4);
		await waitFor('mail flows', () => arrived >= goal, deliveredWithin);
		const victim: Daemon | null = daemon;
		daemon = null;
		await victim?.kill();
		// What was on the wire still arrives, and belongs to the round of the killed.
		await waitFor('the sessions of the killed are closed', () => sink.sessions() === 0, 10_000);
		round = kill;
		daemon = await program.serve();
		t.true(daemon.readyMs < readyWithin, `ready after ${Math.round(daemon.readyMs)} ms`);
	}

	sending = false;
	await load;
	await waitFor(
		'every 202 is delivered',
		() => [...accepted.keys()].every(number => numbers.has(number)),
		deliveredWithin,
	);
	const {url} = daemon;
	await eachOf(accepted.values(), 8, async id => {
		const isDelivered = async () => {
			const {body} = await call(`${url}/v1/messages/${id}`, shop.key);
			return (body as {status: string}).status === 'delivered';
		};
		await waitFor(`${id} is delivered`, isDelivered, deliveredWithin);
	});
	t.is(await daemon.stop(), 0);

	const duplicates = duplicatesByKill(arrivals);
	t.log(`${accepted.size} accepted, ${arrived} arrived, duplicates after each kill: ${duplicates.join(' ')}`);
	t.true(
		duplicates.every(count => count <= maxSessions),
		`duplicates after each kill: ${duplicates.join(' ')}`,
	);
	t.true(
		[...arrivals.values()].every(rounds => new Set(rounds).size === rounds.length),
		'never twice in one life of the daemon',
	);
});

/** How many mails arrived again after each kill: a repeated arrival is charged to the kill that ended the round before. */
function duplicatesByKill(arrivals: Arrivals): number[] {
	const counts = Array.from({length: kills}, () => 0);
	for (const rounds of arrivals.values()) {
		for (const round of rounds.slice(0, -1)) {
			counts[round] = (counts[round] ?? 0) + 1;
		}
	}

	return counts;
}
