import test from 'ava';
import type {Daemon} from '../../helpers/daemon.ts';
import {deliveringTo, domains} from '../../helpers/delivering-to.ts';
import type {Received} from '../../helpers/fake-mx.ts';
import {fullLoad} from '../../helpers/load-scale.ts';
import {call, eachOf, openShop} from '../../helpers/shop.ts';
import {waitFor} from '../../helpers/wait.ts';

const kills = fullLoad ? 10 : 3;
const maxSessions = 8;
const deliveredWithin = 180_000;
const senders = 16;
/** The most accepted messages not yet arrived, so that a minute can clear the backlog. */
const ahead = 400;

test('repeated kill -9 under load: every 202 is delivered, and hardly any twice', async t => {
	t.timeout(600_000);
	const {program, mx} = await deliveringTo(t, {}, {MAILCTL_MAX_SESSIONS: String(maxSessions)});
	const shop = await openShop(program, 'test/fixtures/flow/templates');
	/** Ids of messages accepted with 202, by the number in their data and subject. */
	const accepted = new Map<number, string>();
	let daemon: Daemon | null = await program.serve();
	let sending = true;
	let next = 0;

	const mayLoad = () => !sending || (daemon !== null && accepted.size - mx.count() < ahead);
	const send = async () => {
		await waitFor('room for more mail', mayLoad, deliveredWithin);
		const number = next++;
		const answer = await call(`${daemon?.url}/v1/messages`, shop.key, {
			from: shop.from,
			to: `user${number}@${domains[number % domains.length]}`,
			templateId: shop.templates.get('alert'),
			data: {customer: {name: 'Ann'}, order: {number, placed_at: '2026-06-09T10:15:30Z'}},
		}).catch(() => null); // Killed before it answered: without a 202 nothing was promised.
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

	/** The number of messages arrived at each start of the daemon. */
	const lives = [0];
	const readyMs: number[] = [];
	for (let kill = 1; kill <= kills; kill++) {
		const goal = mx.count() + 100 + 37 * (kill % 4);
		await waitFor('mail flows', () => mx.count() >= goal, deliveredWithin);
		const victim: Daemon | null = daemon;
		daemon = null;
		await victim?.kill();
		// What was on the wire still arrives, and belongs to the life that ended.
		await waitFor('the sessions of the killed are closed', () => mx.open() === 0);
		lives.push(mx.count());
		daemon = await program.serve();
		readyMs.push(Math.round(daemon.readyMs));
	}

	const {url, stop} = daemon;
	sending = false;
	await load;
	const arrived = new Set<number>();
	let read = 0;
	const allArrived = () => {
		for (const mail of mx.received.slice(read)) {
			arrived.add(Number(headerOf(mail, 'Subject').replace('Alert ', '')));
			read++;
		}

		return [...accepted.keys()].every(number => arrived.has(number));
	};
	await waitFor('every 202 has arrived', allArrived, deliveredWithin);
	await eachOf(accepted.values(), 8, async id => {
		const isDelivered = async () => {
			const {body} = await call(`${url}/v1/messages/${id}`, shop.key);
			return (body as {status: string}).status === 'delivered';
		};
		await waitFor(`${id} is delivered`, isDelivered, deliveredWithin);
	});
	t.is(await stop(), 0);

	const {again, twice} = duplicates(mx.received, lives);
	t.log(`${accepted.size} accepted, ${mx.count()} arrived, again after each kill: ${again.join(' ')}`);
	t.log(`ready after ${readyMs.join(', ')} ms`);
	t.true(
		again.every(count => count <= maxSessions),
		`duplicates after each kill: ${again.join(' ')}`,
	);
	t.is(twice, 0, 'within one life of the daemon nothing arrives twice');
});

function headerOf({data}: Received, name: string): string {
	const head = data.subarray(0, data.indexOf('\r\n\r\n')).toString('latin1');
	return new RegExp(`^${name}: *(.*)`, 'im').exec(head)?.[1] ?? '';
}

/**
 * The number of messages repeated (by Message-ID) after each kill, each charged to the kill that ended the run it last
 * arrived in; and the number that arrived twice in one run.
 */
function duplicates(received: readonly Received[], lives: readonly number[]): {again: number[]; twice: number} {
	const again = lives.slice(1).map(() => 0);
	const lastLife = new Map<string, number>();
	let twice = 0;
	for (const [index, mail] of received.entries()) {
		const life = lives.findLastIndex(start => start <= index);
		const id = headerOf(mail, 'Message-ID');
		const before = lastLife.get(id);
		if (before === life) {
			twice++;
		} else if (before !== undefined) {
			again[before] = (again[before] ?? 0) + 1;
		}

		lastLife.set(id, life);
	}

	return {again, twice};
}
