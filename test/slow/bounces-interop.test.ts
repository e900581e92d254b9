import test, {type ExecutionContext} from 'ava';
import {prepareProgram, type Settings} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {type FakeMx, startFakeMx} from '../helpers/fake-mx.ts';
import {freePort} from '../helpers/free-port.ts';
import {type Client, clientOf} from '../helpers/mail-hosts.ts';
import {startEximRelay} from '../helpers/peers/exim-relay.ts';
import {startOpenSmtpdRelay} from '../helpers/peers/opensmtpd-relay.ts';
import {startPostfixRelay} from '../helpers/peers/postfix-relay.ts';
import type {Relaying, RelayOptions} from '../helpers/peers/relay.ts';
import {waitFor} from '../helpers/wait.ts';

// A foreign server takes our mail for a domain whose last host refuses it, puts it off or takes it, and tells us by
// mail.

const returnPathDomain = 'bounce.shop.example';
const domain = 'far.example';
const patience = 180_000;

const peers = {Postfix: startPostfixRelay, Exim: startEximRelay, OpenSMTPD: startOpenSmtpdRelay};

/** The reply of the last mail server, by local part; all others are accepted. */
const answers: Record<string, string | undefined> = {
	gone: '550 5.1.1 No such user here',
	full: '452 4.2.2 Mailbox full',
};

type Shown = {
	readonly message: {readonly status: string};
	readonly events: ReadonlyArray<{readonly type: string; readonly detail: Readonly<Record<string, unknown>>}>;
	readonly recipients: ReadonlyArray<{readonly reports: ReadonlyArray<{readonly action: string}>}>;
};

type Lab = Pick<Client, 'send' | 'until'> & {
	readonly last: FakeMx;
	readonly show: (id: string) => Promise<Shown>;
	/** Waits until the message has a report of this action. */
	readonly reported: (id: string, ...actions: readonly string[]) => Promise<void>;
	readonly bounce: (id: string) => Promise<Readonly<Record<string, unknown>> | undefined>;
	readonly isSuppressed: (address: string) => Promise<boolean>;
	/** Whether everything received was about one of our messages; stops the daemon. */
	readonly end: () => Promise<void>;
};

async function startLab(
	t: ExecutionContext,
	start: (t: ExecutionContext, options: RelayOptions) => Promise<Relaying | null>,
	{
		dsn,
		rcpt,
		settings,
	}: {dsn: boolean; rcpt: (local: string) => string | undefined; settings: (port: number) => Settings},
): Promise<Lab | null> {
	const last = await startFakeMx(t, {rcpt: line => rcpt(/<([^@>]+)@/.exec(line)?.[1] ?? '')});
	const inboundPort = await freePort();
	const ports = {lastPort: last.port, inboundPort};
	const peer = await start(t, {hostname: `mx.${domain}`, domain, returnPathDomain, dsn, ...ports});
	if (!peer) {
		return null;
	}
	const dns = await startFakeDns(t, {
		[domain]: {mx: [[10, `mx.${domain}`]]},
		[`mx.${domain}`]: {a: ['127.0.0.1']},
	});
	const program = await prepareProgram(t, {
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_PUBLIC_URL: 'https://mail.shop.example',
		MAILCTL_RETURN_PATH_DOMAIN: returnPathDomain,
		MAILCTL_INBOUND_LISTEN: `127.0.0.1:${inboundPort}`,
		MAILCTL_DNS_SERVERS: dns.server,
		MAILCTL_ALLOW_PRIVATE_MX: 'true',
		MAILCTL_MTA_STS: 'false',
		...settings(peer.port),
	});
	const daemon = await program.serve();
	const {send, until} = await clientOf(program, daemon);
	const show = (id: string) => program.cli<Shown>('message', 'show', id);
	return {
		last,
		send,
		until: (id, status) => until(id, status, patience),
		show,
		async reported(id, ...actions) {
			await waitFor(
				`${id}: ${actions.join(' or ')}`,
				async () => (await show(id)).recipients[0]?.reports.some(({action}) => actions.includes(action)),
				patience,
			);
		},
		bounce: async id => (await show(id)).events.find(({type}) => type === 'bounced')?.detail,
		isSuppressed: async address =>
			(await program.cli<{suppressed: boolean}>('suppression', 'check', address)).suppressed,
		async end() {
			t.deepEqual(await program.cli('bounce', 'unmatched'), []);
			t.is(await daemon.stop(), 0);
		},
	};
}

for (const [name, start] of Object.entries(peers)) {
	test.serial(`${name} as MX: reports of refused, expired and delayed messages come back`, async t => {
		t.timeout(600_000);
		let slow: string | undefined = '451 4.3.0 Come back later';
		const lab = await startLab(t, start, {
			dsn: false,
			rcpt: local => (local === 'slow' ? slow : answers[local]),
			settings: port => ({MAILCTL_DELIVERY: 'mx', MAILCTL_MX_PORT: String(port)}),
		});
		if (!lab) {
			return;
		}
		const {send, until, show, reported, bounce, isSuppressed, last} = lab;
		const [gone, full, waits, fine] = await Promise.all(
			['gone', 'full', 'slow', 'ann'].map(local => send(`${local}@${domain}`)),
		);
		await until(fine as string, 'delivered');
		await until(gone as string, 'bounced');
		t.like(await bounce(gone as string), {type: 'permanent', category: 'unknown_user', found_by: 'return_path'});
		t.true(await isSuppressed(`gone@${domain}`));

		await reported(waits as string, 'delayed');
		// A slow machine may see the end of it before it sees the delay.
		const {message, events, recipients} = await show(waits as string);
		const givenUp = recipients[0]?.reports.some(({action}) => action === 'failed') === true;
		t.is(message.status, givenUp ? 'bounced' : 'delivered', 'a delay is a report, no event');
		t.is(
			events.some(({type}) => type === 'bounced'),
			givenUp,
		);
		slow = undefined;

		await until(full as string, 'bounced');
		t.like(await bounce(full as string), {type: 'transient', found_by: 'return_path'});
		t.false(await isSuppressed(`full@${domain}`));
		t.is((await show(fine as string)).message.status, 'delivered');
		t.true(last.received.some(({to}) => to.join().includes('ann@')));
		await lab.end();
	});

	test.serial(`${name} as relay: reports of relayed and refused messages come back`, async t => {
		t.timeout(600_000);
		const lab = await startLab(t, start, {
			dsn: true,
			rcpt: local => answers[local],
			settings: port => ({MAILCTL_DELIVERY: 'relay', MAILCTL_RELAY_URL: `smtp://127.0.0.1:${port}?tls=none`}),
		});
		if (!lab) {
			return;
		}
		const {send, until, reported, bounce, isSuppressed} = lab;
		const fine = await send(`ann@${domain}`);
		const gone = await send(`gone@${domain}`);
		await reported(fine, 'relayed', 'delivered');
		await until(fine, 'delivered');
		await until(gone, 'bounced');
		t.like(await bounce(gone), {type: 'permanent', category: 'unknown_user'});
		t.true(await isSuppressed(`gone@${domain}`));
		t.false(await isSuppressed(`ann@${domain}`));
		await lab.end();
	});
}
