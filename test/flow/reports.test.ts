import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {type Program, prepareProgram, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {inboundPort, linksOf} from '../helpers/sent-recipients.ts';
import {call} from '../helpers/shop.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

const domain = 'bounces.shop.example';

type Report = {readonly kind: string; readonly action: string};
type Recipient = {readonly id: string; readonly address: string; readonly state: string; readonly reports: Report[]};
type Shown = {
	readonly message: {status: string};
	readonly events: Array<{type: string}>;
	readonly recipients: Recipient[];
};

/** A DSN (RFC 3464) about a recipient. */
function dsn(recipient: string, action: string, status: string, diagnostic: string): string {
	const lines = [
		'From: MAILER-DAEMON@mx.example.net',
		'Subject: Delivery report',
		'Auto-Submitted: auto-replied',
		'MIME-Version: 1.0',
		'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
		'',
		'--b',
		'',
		'This is the mail system at mx.example.net.',
		'',
		'--b',
		'Content-Type: message/delivery-status',
		'',
		'Reporting-MTA: dns; mx.example.net',
		'',
		`Final-Recipient: rfc822; ${recipient}`,
		`Action: ${action}`,
		`Status: ${status}`,
		`Diagnostic-Code: smtp; ${diagnostic}`,
		'',
		'--b--',
		'',
	];
	return lines.join('\r\n');
}

const gone = (recipient: string) => dsn(recipient, 'failed', '5.1.1', '550 5.1.1 User unknown');
const vacation = [
	'From: ada@example.net',
	'Auto-Submitted: auto-replied',
	'Subject: Out of office',
	'',
	'I am away until Monday.',
	'',
].join('\r\n');
const authFailure = [
	'From: reports@example.net',
	'MIME-Version: 1.0',
	'Content-Type: multipart/report; report-type=feedback-report; boundary="b"',
	'',
	'--b',
	'Content-Type: message/feedback-report',
	'',
	'Feedback-Type: auth-failure',
	'User-Agent: test/1',
	'Version: 1',
	'Original-Rcpt-To: ada@example.net',
	'',
	'--b',
	'Content-Type: text/rfc822-headers',
	'',
	'From: hello@example.com',
	'',
	'--b--',
	'',
].join('\r\n');

type Lab = {readonly program: Program; readonly welcome: Welcome; readonly url: string; readonly dataDir: string};

async function start(t: ExecutionContext): Promise<Lab> {
	const settings = {MAILCTL_INBOUND_LISTEN: '127.0.0.1:0', MAILCTL_RETURN_PATH_DOMAIN: domain};
	const program = await prepareProgram(t, settings);
	const {url} = await program.serve();
	return {program, url, welcome: await welcomeOf(program), dataDir: path.join(program.folder, 'data')};
}

const shown = async ({program}: Lab, id: string) => await program.cli<Shown>('message', 'show', id);

/** Sends a message to one address with another in `cc`, and waits until both are delivered. */
async function sent(lab: Lab, to: string, cc: string): Promise<{id: string; recipients: readonly Recipient[]}> {
	const {key, from, templateId} = lab.welcome;
	const {body} = await call(`${lab.url}/v1/messages`, key, {from, to, cc: [cc], templateId});
	const {id} = body as {id: string};
	const recipients = await waitFor('both copies are delivered', async () => {
		const {recipients} = await shown(lab, id);
		return recipients.every(({state}) => state === 'delivered') && recipients;
	});
	return {id, recipients};
}

/** Sends a message to the listener; returns the reply to RCPT, or to the data if RCPT was accepted. */
async function bring(t: ExecutionContext, lab: Lab, sender: string, local: string, mail: string): Promise<string> {
	const talk = await talkTo(t, inboundPort(lab.dataDir));
	await talk.reply();
	await talk.say('EHLO mx.example.net');
	await talk.say(`MAIL FROM:<${sender}>`);
	const answer = await talk.say(`RCPT TO:<${local}@${domain}>`);
	const end = answer.startsWith('250') ? await talk.data(mail) : answer;
	talk.end();
	return end;
}

/** Waits until the recipient has so many reports; returns the message as it is then. */
async function reported(lab: Lab, id: string, address: string, count: number): Promise<Shown> {
	await waitFor(`${count} reports of ${address}`, async () => {
		const {recipients} = await shown(lab, id);
		return recipients.find(recipient => recipient.address === address)?.reports.length === count;
	});
	// Events are read before reports: those of the last one may have come in between.
	return await shown(lab, id);
}

const suppressions = async ({program}: Lab) =>
	(await program.cli<Array<{recipient: string; reason: string}>>('suppression', 'list')).map(
		({recipient, reason}) => `${recipient} ${reason}`,
	);

test('checks 12 to 14: handles forged, harmless and cc reports from listener to suppression list', async t => {
	const lab = await start(t);
	const {id, recipients} = await sent(lab, 'ada@example.net', 'bob@example.org');
	const links = linksOf(lab.dataDir);
	const [to, cc] = recipients as [Recipient, Recipient];
	const path1 = links.returnPathLocal(to.id, to.address);
	const path2 = links.returnPathLocal(cc.id, cc.address);

	for (const forged of [links.returnPathLocal(to.id, 'eve@example.net'), path2.slice(0, 28) + path1.slice(28)]) {
		t.regex(await bring(t, lab, '', forged, gone('ada@example.net')), /^550 5\.1\.1/);
	}
	for (const mail of [vacation, dsn('ada@example.net', 'delayed', '4.4.1', '451 busy'), authFailure]) {
		t.regex(await bring(t, lab, '', path1, mail), /^250/);
	}
	t.regex(await bring(t, lab, '', path1, dsn('ada@example.net', 'relayed', '2.0.0', '250 passed on')), /^250/);
	const harmless = await reported(lab, id, 'ada@example.net', 4);
	t.deepEqual(harmless.recipients[0]?.reports.map(({kind, action}) => `${kind} ${action}`).toSorted(), [
		'arf none',
		'auto_reply none',
		'dsn delayed',
		'dsn relayed',
	]);
	t.is(harmless.message.status, 'delivered');
	t.deepEqual(await suppressions(lab), []);

	t.regex(await bring(t, lab, '', path2, gone('bob@elsewhere.example')), /^250/);
	const bounced = await reported(lab, id, 'bob@example.org', 1);
	t.is(bounced.message.status, 'delivered');
	t.is(bounced.recipients[1]?.state, 'bounced');
	t.is(bounced.events.at(-1)?.type, 'bounced');
	t.deepEqual(await suppressions(lab), ['bob@example.org hard_bounce']);

	// A mail to the unsubscribe address unsubscribes; a bounce to it is a bounce.
	const later = await sent(lab, 'cat@example.net', 'dan@example.org');
	const [local1 = '', local2 = ''] = later.recipients.map(recipient =>
		links.unsubscribeLocal(recipient.id, recipient.address),
	);
	t.regex(
		await bring(t, lab, 'cat@example.net', local1, 'From: cat@example.net\r\nSubject: unsubscribe\r\n\r\n'),
		/^250/,
	);
	const {events} = await reported(lab, later.id, 'cat@example.net', 1);
	t.is(events.at(-1)?.type, 'unsubscribed');
	t.regex(await bring(t, lab, '', local2, gone('dan@example.org')), /^250/);
	await reported(lab, later.id, 'dan@example.org', 1);
	t.deepEqual((await suppressions(lab)).toSorted(), [
		...['bob@example.org hard_bounce', 'cat@example.net unsubscribe', 'dan@example.org hard_bounce'],
	]);
});
