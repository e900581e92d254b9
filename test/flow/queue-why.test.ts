import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import type {Why} from '../../src/resources/messages/why.ts';
import {prepareProgram, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {startMx} from '../helpers/delivering-to.ts';
import {startFakeMx} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

/** The reply to a recipient, by its local part. */
const answers: Readonly<Record<string, string | {do: 'never'}>> = {
	stuck: {do: 'never'},
	full: '452 4.2.2 Mailbox full',
	grey: '451 4.7.1 Greylisted, please try again later',
	gone: '550 5.1.1 No such user',
};

const rcpt = (line: string) => answers[/<(\w+)@/.exec(line)?.[1] ?? ''];

test('queue why explains every waiting state of a running daemon', async t => {
	const {mx, dns, settings} = await startMx(t, {host: loopbackAddress(), rcpt});
	const silent = await startFakeMx(t, {host: loopbackAddress(), port: mx.port, rcpt: {do: 'never'}});
	Object.assign(dns.zone, {
		'busy.example': {mx: [[10, 'mx.busy.example']]},
		'mx.busy.example': {a: [silent.host]},
		'dead.example': {mx: [[10, 'mx.dead.example']]},
		'mx.dead.example': {a: [loopbackAddress()]},
		'slow.example': {mx: [[10, 'mx.slow.example']]},
		'mx.slow.example': {a: [mx.host]},
	});
	const program = await prepareProgram(t, {
		...settings,
		MAILCTL_DESTINATIONS_FILE: 'destinations.json',
		// Nothing is tried again but by command.
		MAILCTL_RETRY_SCHEDULE: '1h*',
		// Some of its sessions never end.
		MAILCTL_DRAIN_LIMIT: '1s',
	});
	const slow = {slow: {domains: ['slow.example'], perMinute: 1}};
	await writeFile(join(program.folder, 'destinations.json'), JSON.stringify(slow));
	const first = await program.serve();
	const shop = await welcomeOf(program);
	const why = async (id: string) => (await program.cli<Why[]>('queue', 'why', id))[0] as Why;
	const sendTo = async (url: string, address: string) => await send(url, shop, address);
	// One after the other: the last is the one that waits.
	const sendAll = async (url: string, domain: string, count: number) => {
		const ids: string[] = [];
		for (let n = 0; n < count; n++) {
			ids.push(await sendTo(url, `user${n}@${domain}`));
		}
		return ids;
	};
	const until = async (id: string, waitsFor: Why['waits_for']) =>
		await waitFor(`it waits for ${waitsFor}`, async () => {
			const answer = await why(id);
			return answer.waits_for === waitsFor && answer;
		});

	// 1. It is being tried: the host does not answer.
	const stuck = await sendTo(first.url, 'stuck@a.example');
	t.regex((await until(stuck, 'in_flight')).detail, /^Attempt 1 is in progress \(started 20/);

	// 2. It was put off.
	const full = await sendTo(first.url, 'full@a.example');
	const retried = await until(full, 'retry');
	t.regex(
		retried.detail,
		/for attempt 2: attempt 1 was deferred \(mailbox_full\) by mx\.example at .*452 4\.2\.2 Mailbox full"/,
	);
	t.is(retried.until, retried.next_attempt_at);
	t.is(retried.attempts, 1);

	// 3. The host greylists.
	const grey = await sendTo(first.url, 'grey@b.example');
	t.regex((await until(grey, 'greylisting')).detail, /attempt 1 was greylisted by mx\.example/);

	// 4. DNS does not answer: the domain is not there.
	const nowhere = await sendTo(first.url, 'user@nowhere.example');
	t.regex((await until(nowhere, 'retry')).detail, /deferred \(unknown_domain\).*nowhere\.example does not exist/);

	// 5. and 6. It was delivered; it bounced.
	const delivered = await sendTo(first.url, 'user@c.example');
	t.regex((await until(delivered, null)).detail, /queued: delivered at 20.* by mx\.example: 2\.0\.0 Ok/);
	const bounced = await sendTo(first.url, 'gone@c.example');
	const ended = await until(bounced, null);
	t.regex(ended.detail, /queued: bounced at .*550 5\.1\.1 No such user/);
	t.regex(ended.mend ?? '', new RegExp(`mailctl message resend ${bounced}`));

	// 7. An operator holds it: it is due, and is not tried.
	await program.cli('queue', 'hold', full, '--reason', 'ask first');
	await program.cli('queue', 'flush', full);
	const held = await why(full);
	t.is(held.waits_for, 'hold');
	t.regex(held.detail, /^Held since 20.*: ask first\.$/);
	t.deepEqual(
		held.also.map(reason => reason.waits_for),
		['retry'],
	);
	await program.cli('queue', 'release', full);
	t.is((await why(full)).waits_for, 'retry');
	// Due now, tried again within a second, put off again.
	await program.cli('queue', 'flush', full);
	await waitFor('it is tried again', async () => (await why(full)).attempts === 2);

	// 8. An operator suspends the domain.
	await program.cli('queue', 'suspend', 'b.example', '--reason', 'moving');
	const suspended = await why(grey);
	t.is(suspended.waits_for, 'operator');
	t.regex(suspended.detail, /^An operator suspended all mail to b\.example at 20.*: moving\.$/);
	t.deepEqual(
		suspended.also.map(reason => reason.waits_for),
		['greylisting'],
	);
	await program.cli('queue', 'resume', 'b.example');
	t.is((await why(grey)).waits_for, 'greylisting');

	// 9. Its workspace is paused.
	await program.cli('workspace', 'pause', 'default', '--reason', 'too many bounces');
	const paused = await why(full);
	t.is(paused.waits_for, 'paused');
	t.regex(paused.detail, /^The workspace default has been paused since 20.*: too many bounces\.$/);
	await program.cli('workspace', 'resume', 'default');

	// Whoever follows it sees how it ends.
	const followed = program.run('queue', 'trace', full, '--follow');
	// In a process of its own, which begins as late as that one.
	await program.run('queue', 'flush', full);
	await waitFor('it is tried once more', async () => (await why(full)).attempts === 3);
	await program.run('queue', 'fail', full);
	const {code, stdout} = await followed;
	t.is(code, 0);
	t.regex(stdout, /\n {2}Waiting until .* for attempt/);
	t.regex(stdout, /\n {2}3\. 20.*mx\.example \[127/);
	t.regex(stdout, /\| +\d+ S: 452 4\.2\.2 Mailbox full/);
	t.regex(stdout, /\n {2}No longer queued: bounced at\s20/);

	// 10. Its site has as much under way as it may.
	const busy = await sendAll(first.url, 'busy.example', 12);
	t.regex((await until(busy.at(-1) ?? '', 'pace')).detail, /^Waiting for capacity at mx\.busy\.example: its servers/);

	// 11. Its site gets only so many mails per minute.
	const limited = await sendAll(first.url, 'slow.example', 4);
	t.regex((await until(limited.at(-1) ?? '', 'rate')).detail, /^Waiting for the rate limit of mx\.slow\.example/);

	// 12. Its site is left alone after failures; an operator wants it tried.
	await sendAll(first.url, 'dead.example', 8);
	const left = await waitFor('the site is left alone', async () => {
		const last = await sendTo(first.url, 'last@dead.example');
		const answer = await why(last);
		return answer.waits_for === 'suspension' && answer;
	});
	t.regex(
		left.detail,
		/^Sending to mx\.dead\.example is backing off until 20.* after failures: .*ECONNREFUSED|refused/,
	);
	const rows = await program.cli<Array<{destination: string; suspended_by: string}>>('queue', 'summary');
	t.is(rows.find(({destination}) => destination === 'dead.example')?.suspended_by, 'failures');
	const triesOf = async (domain: string) =>
		(await program.cli<Array<{attempts: number}>>('queue', 'list', '--destination', domain)).reduce(
			(sum, {attempts}) => sum + attempts,
			0,
		);
	const tries = await triesOf('dead.example');
	t.like(await program.cli('queue', 'resume', 'dead.example'), {resumed: true, sites: ['mx.dead.example']});
	await waitFor('one mail tries it', async () => (await triesOf('dead.example')) > tries);

	// 13. No daemon runs.
	t.is(await first.stop(), 0);
	t.like(await why(stuck), {waits_for: 'daemon', detail: 'No daemon is running.', attempts: 0});

	// 14. One runs that does not deliver.
	const api = await program.serve({MAILCTL_ROLES: 'api'});
	const accepted = await sendTo(api.url, 'user@d.example');
	t.like(await why(accepted), {
		waits_for: 'daemon',
		detail: 'The running daemon does not deliver mail (MAILCTL_ROLES).',
		also: [],
	});
	await program.cli('queue', 'hold', accepted);
	await api.kill();

	// 15. Killed while it was trying: the claim is no daemon's any more.
	const third = await program.serve();
	await until(stuck, 'in_flight');
	t.like(await why(accepted), {waits_for: 'hold', state: 'accepted', attempts: 0});
	await third.kill();
	t.is((await why(stuck)).waits_for, 'daemon');
	await program.cli('queue', 'fail', stuck, '--reason', 'enough');
	t.regex((await why(stuck)).detail, /bounced at 20.*: enough\.$/);
});

test('queue why reports that the relay refuses us, and that a resume did not help', async t => {
	const relay = await startFakeMx(t, {host: loopbackAddress(), extensions: ['AUTH PLAIN'], auth: '535 5.7.8 No'});
	const program = await prepareProgram(t, {
		MAILCTL_DELIVERY: 'relay',
		MAILCTL_RELAY_URL: `smtp://user:wrong@${relay.host}:${relay.port}?tls=none`,
	});
	const daemon = await program.serve();
	const shop = await welcomeOf(program);
	const id = await send(daemon.url, shop, 'user@a.example');
	const answer = await waitFor('the route is stopped', async () => {
		const [first] = await program.cli<Why[]>('queue', 'why', id);
		return first?.waits_for === 'route' && first;
	});
	t.regex(answer.detail, /^The smarthost user@127.* is refusing our mail: .*535.* Next attempt at 20/);
	t.deepEqual([answer.attempts, answer.state], [0, 'queued']);
	const [row] = await program.cli<object[]>('queue', 'summary');
	t.like(row, {destination: 'a.example', suspended: true, suspended_by: 'route'});
	const {length} = relay.connections;
	// On a slow machine it may just be tried anyway.
	await waitFor(
		'it is resumed',
		async () => (await program.cli<{resumed: boolean}>('queue', 'resume', 'a.example')).resumed,
	);
	await waitFor('it is tried once more', () => relay.connections.length > length);
	t.is(await daemon.stop(), 0);
});

async function send(url: string, {key, from, templateId}: Welcome, to: string): Promise<string> {
	const {status, body} = await call(`${url}/v1/messages`, key, {from, to, templateId});
	if (status !== 202) {
		throw new Error(`HTTP ${status}: ${JSON.stringify(body)}`);
	}
	return (body as {id: string}).id;
}
