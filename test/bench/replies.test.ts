import test from 'ava';
import fc from 'fast-check';
import {percentiles} from '../../src/cli/bench/latency.ts';
import {newSite, noteAttempt} from '../../src/queue/pace/site-state.ts';
import {defaultPace} from '../helpers/routes.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';
import {startAccountedSink} from './accounted-sink.ts';
import {accountOf} from './books.ts';
import {realistic, reluctanceTo} from './replies.ts';

const addresses = Array.from({length: 20_000}, (_, n) => `user${n}@d${n % 40}.example`);
const meeting = (name: string, seed = 1) => addresses.find(address => reluctanceTo(address, seed)?.name === name) ?? '';

test('realistic replies: of many addresses each reply meets its share, whatever the seed, and the seed decides which', t => {
	fc.assert(
		fc.property(fc.nat(1_000_000), seed => {
			const met = addresses.map(address => reluctanceTo(address, seed)?.name);
			for (const {name, share} of realistic) {
				const part = met.filter(one => one === name).length / addresses.length;
				// Five standard deviations.
				t.true(
					Math.abs(part - share) < 5 * Math.sqrt(share / addresses.length),
					`${name} ${part} by seed ${seed}`,
				);
			}
			const other = addresses.map(address => reluctanceTo(address, seed + 1)?.name);
			t.notDeepEqual(met, other);
			t.deepEqual(
				addresses.map(address => reluctanceTo(address, seed)?.name),
				met,
			);
		}),
		{numRuns: 5, seed: 1},
	);
});

test('realistic replies: none asks for more than to be tried again, which would slow its site for the rest of the run', t => {
	for (const {reply} of realistic) {
		const replies = reply === '' ? [] : [reply.trim()];
		const changes = noteAttempt(
			newSite(defaultPace),
			{kind: 'throttled', hasReplied: true, replies, reason: ''},
			0,
			4000,
		);
		t.deepEqual(
			changes.filter(change => change !== 'halved'),
			[],
			String(reply),
		);
	}
});

test('the sink: greylists once, defers twice, refuses always, hangs up once, is silent once; its books say so', async t => {
	const sink = await startAccountedSink({seed: 1});
	t.teardown(sink.stop);
	const attempt = async (name: string) => {
		const talk = await talkTo(t, sink.port);
		await talk.reply();
		await talk.say('EHLO client.example');
		await talk.say('MAIL FROM:<a@shop.example>');
		const reply = await talk.say(`RCPT TO:<${meeting(name)}>`);
		return reply.startsWith('250') ? await talk.data('Subject: one\r\n\r\nRCPT TO:<nobody@d1.example>\r\n') : reply;
	};
	const attempts = async (name: string, count: number) => {
		const codes: string[] = [];
		for (let left = count; left > 0; left--) {
			codes.push((await attempt(name)).slice(0, 9));
		}
		return codes;
	};
	t.deepEqual(await attempts('greylisted', 2), ['451 4.7.1', '250 2.0.0']);
	t.deepEqual(await attempts('deferred', 3), ['450 4.2.1', '450 4.2.1', '250 2.0.0']);
	t.deepEqual(await attempts('refused', 2), ['550 5.1.1', '550 5.1.1']);
	t.deepEqual(await attempts('throttled', 2), ['421 4.7.0', '250 2.0.0']);

	let answered = false;
	void attempt('hung').then(
		() => {
			answered = true;
		},
		() => undefined,
	);
	await waitFor('the first try', async () => (await sink.entries()).some(({address}) => address === meeting('hung')));
	t.deepEqual(await attempts('hung', 2), ['250 2.0.0', '250 2.0.0']);
	t.false(answered);

	const entries = await sink.entries();
	t.deepEqual(
		entries.map(({tries, taken}) => [tries, taken]),
		[
			[2, 1],
			[3, 1],
			[2, 0],
			[2, 1],
			[3, 2],
		],
	);
	t.is(sink.count(), 6, 'mails taken and the recipient refused');
	t.deepEqual(accountOf(6, entries), {
		accepted: 6,
		delivered: 4,
		delivered_later: 4,
		bounced: 1,
		lost: 1,
		twice: 1,
	});
});

test('the sink: refuses DATA to nobody, also where it is sent at once, and hangs up after 421 in the middle of what was sent', async t => {
	const sink = await startAccountedSink({seed: 1});
	t.teardown(sink.stop);
	const talk = await talkTo(t, sink.port);
	await talk.reply();
	talk.send(`MAIL FROM:<>\r\nRCPT TO:<${meeting('refused')}>\r\nDATA\r\n`);
	t.deepEqual(
		[await talk.reply(), await talk.reply(), await talk.reply()].map(reply => reply.slice(0, 3)),
		['250', '550', '503'],
	);
	talk.send(`RSET\r\nMAIL FROM:<>\r\nRCPT TO:<${meeting('throttled')}>\r\nDATA\r\n`);
	t.deepEqual(
		[await talk.reply(), await talk.reply(), await talk.reply(), await talk.reply()].map(reply =>
			reply.slice(0, 6),
		),
		['250 2.', '250 2.', '421 4.', 'closed'],
	);
});

test('percentiles: of a hundred latencies, in tenths of a millisecond', t => {
	const latencies = Array.from({length: 100}, (_, n) => 100 - n + 0.04);
	t.deepEqual(percentiles(latencies, 'delivered_'), {
		delivered_p50_ms: 50,
		delivered_p90_ms: 90,
		delivered_p99_ms: 99,
		delivered_max_ms: 100,
	});
});
