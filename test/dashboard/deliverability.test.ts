import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {startMx} from '../helpers/delivering-to.ts';
import type {FakeMx} from '../helpers/fake-mx.ts';
import {multipartOf} from '../helpers/report-mails.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

let host: FakeMx;
const service = serviceOf(test, {
	workspaces: {shop: [], empty: [], waits: []},
	async settings(scope) {
		const rcpt = (line: string) => {
			const [, who = ''] = /<([^@]*)/.exec(line) ?? [];
			if (who.startsWith('gone')) {
				return `550 5.1.1 <${who}@a.example>: <b>no</b> such user`;
			}
			if (who === 'full') {
				return '452-4.2.2 Mailbox full \u202e<b>\n452 4.2.2 or so';
			}
			return who.startsWith('later') ? '451 4.7.1 Greylisted, try again in 300 seconds' : undefined;
		};
		const {mx, settings} = await startMx(scope, {rcpt});
		host = mx;
		return {...settings, MAILCTL_SOURCE_ADDRESSES: '127.0.0.1', MAILCTL_WARM_UP: '127.0.0.1=2026-01-01'};
	},
});
const of = (name: string) => service().workspaces[name] as Workspace;

async function sent(to: string): Promise<string> {
	const {live, from, templates} = of('waits');
	const send = {from, to, templateId: templates.plain, data: {name: 'Ann'}};
	return (await live.post<{id: string}>('/v1/messages', send)).body.id;
}

/** Sends to these addresses and waits for an attempt to each. */
async function sendTo({live, from, templates}: Workspace, addresses: readonly string[]): Promise<void> {
	for (const to of addresses) {
		const send = {from, to, templateId: templates.plain, data: {name: 'x'}};
		const {body} = await live.post<{id: string}>('/v1/messages', send);
		await waitFor('a reply', async () => {
			const {body: recipients} = await live.get<{data: Array<{last_reply: string | null}>}>(
				`/v1/messages/${body.id}/recipients`,
			);
			return recipients.data[0]?.last_reply;
		});
	}
}

test('shows accepted, deferred and refused messages by provider, reply, category and destination', async t => {
	await sendTo(of('shop'), ['ann@a.example', 'gone1@a.example', 'gone2@a.example', 'later@b.example']);
	const {text} = await (await visitorOf(service(), 'viewer', 'shop')).get('/deliverability');
	t.regex(text, /Based on 4 recipients/);
	t.regex(
		text,
		/<td class="cut"><bdi>mx\.example<\/bdi><\/td><td class="right">4<\/td><td class="right">25\.0 %<\/td>/,
	);
	t.regex(text, /<td class="cut"><bdi>a\.example<\/bdi><\/td><td class="right">3<\/td>/);
	t.regex(text, /<bdi>550 5\.1\.1 : &lt;b&gt;no&lt;\/b&gt; such user<\/bdi>/, 'both refusals as one, and as text');
	t.regex(text, /try again in … seconds/);
	t.regex(text, /unknown_user<\/td><td class="right">2<\/td><td class="right">100 %<\/td>/);
	t.regex(text, /127\.0\.0\.1/);
	t.regex(text, /day \d+|complete/);
});

test('explains an empty deliverability page', async t => {
	const {text} = await (await visitorOf(service(), 'viewer', 'empty')).get('/deliverability?period=7d');
	t.regex(text, /No messages in the last 7 days/);
	t.notRegex(text, /a\.example/);
});

test('shows why a message waits and the SMTP conversation of its attempt', async t => {
	const id = await sent('full@a.example');
	const viewer = await visitorOf(service(), 'viewer', 'waits');
	const {text} = await waitFor('a try', async () => {
		const page = await viewer.get(`/messages/${id}`);
		return page.text.includes('Attempt 1:') && page;
	});
	t.true(text.includes('Why it is waiting'));
	t.regex(text, /for attempt 2: attempt 1 was deferred \(mailbox_full\) by mx\.example/);
	t.true(text.includes('/queue/a.example'));
	t.regex(text, /C: RCPT TO:&lt;full@a\.example&gt;/);
	t.true(text.includes('4.2.2 or so'), 'the reply in full');
	t.notRegex(text, /<b>|\u202e/, 'nothing of it is markup, nor turns the page round');
	t.regex(text, /hx-get="\/messages\/msg_\w+" hx-trigger="mail from:body/, 'it follows what happens');

	const preview = await viewer.get(`/messages/${id}/preview`);
	t.true(preview.text.includes('Rendered again from the template'));
	t.regex((await viewer.get(`/messages/${id}/frame`)).text, /Hello Ann/);
});

test('shows a returned report with its classification', async t => {
	const {program} = service();
	const id = await sent('moved@a.example');
	const {from} = await waitFor('the mail', () => host.received.find(({to}) => to.includes('moved@a.example')));
	const status =
		'Final-Recipient: rfc822; moved@a.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 No such user here';
	const bounce = multipartOf({
		header: [`Delivered-To: ${from}`],
		parts: [
			'Content-Type: text/plain\n\nSorry.\n',
			`Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example\n\n${status}\n`,
		],
	});
	const file = join(program.folder, 'bounce.eml');
	await writeFile(file, bounce);
	await program.cli('bounce', 'ingest', file);
	const viewer = await visitorOf(service(), 'viewer', 'waits');
	const {text} = await viewer.get(`/messages/${id}`);
	t.regex(text, /Report: <bdi>failed \(DSN\), 5\.1\.1/);
	t.regex(text, /by rule /);
	t.true(text.includes('550 5.1.1 No such user here'));
	t.true(text.includes('bounced'));
	t.false(text.includes('hx-trigger="mail from:body'), 'nothing of it changes by itself any more');
});
