import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {visitorOf} from '../../helpers/dashboard.ts';
import type {Workspace} from '../../helpers/service.ts';
import {unmatchedBounce} from '../../helpers/unmatched-bounce.ts';
import {waitFor} from '../../helpers/wait.ts';
import {journeysOf, service} from './stage.ts';

const journey = journeysOf('messages');
const shop = () => service().workspaces.shop as Workspace;

async function send(to: string, more: object = {}): Promise<string> {
	const {live, from, templates} = shop();
	const {body} = await live.post<{id: string}>('/v1/messages', {
		...{from, to, templateId: templates.plain, data: {name: 'Ann'}},
		...more,
	});
	return body.id;
}

const statusOf = async (id: string) => (await shop().live.get<{status: string}>(`/v1/messages/${id}`)).body.status;
const hasStatus = (id: string, status: string) =>
	waitFor(`${id} ${status}`, async () => (await statusOf(id)) === status);

async function comesBack(mail: string): Promise<void> {
	const file = join(service().program.folder, 'returned.eml');
	await writeFile(file, mail);
	await service().program.cli('bounce', 'ingest', file);
}

journey('a user opens and views a captured message', async (t, {open, own}) => {
	const to = own('captured@dest.example');
	await hasStatus(await send(to), 'delivered');
	const {page, press, open: openRow} = await open(await visitorOf(service(), 'viewer', 'shop'));
	await page.goto('/');
	await openRow(to);
	await page.frameLocator('iframe.frame').getByText('Hello Ann').waitFor();
	await press('Phone', 'a');
	await page.waitForURL(/look=phone/);
	await press('Headers', 'a');
	t.regex(await page.locator('main').innerText(), new RegExp(`To\\s+${to}`));
});

journey('a user finds an order by its number', async (t, {open, own, suitsAll}) => {
	for (const order_id of [own('1042'), own('1043')]) {
		await hasStatus(
			await send(`${order_id}@dest.example`, {metadata: {order_id}, tags: ['receipt'], data: {name: order_id}}),
			'delivered',
		);
	}
	const {page, search, press, open: openRow} = await open(await visitorOf(service(), 'viewer', 'shop'));
	await page.goto('/messages');
	await search(`order_id=${own('1042')} tag:receipt`);
	t.is(await page.locator('main tbody tr').count(), 1);
	await suitsAll(page);
	await page.goto('/messages');
	await search(own('1042'));
	t.is(await page.locator('main tbody tr').count(), 1, 'by the number alone');
	await openRow(own('1042'));
	await page.getByRole('heading', {name: `Hello ${own('1042')}`}).waitFor();
	await press('Timeline', 'a');
	await press(`order_id=${own('1042')}`, 'a');
	t.is(await page.locator('main tbody tr').count(), 1, 'and again by what the message says of itself');
});

journey('a user finds out why a message waits, and releases it', async (t, {open, own, suitsAll}) => {
	const operator = await visitorOf(service(), 'operator');
	await operator.submit('/workspaces/use', {workspace: shop().id});
	const {page, press, type, go, open: openRow} = await open(operator);
	const domain = own('held.example');
	await page.goto('/messages');
	await go('Queue');
	await press('Suspend a domain', 'summary');
	await type('Domain', domain);
	await press('Suspend');
	await page.getByText(`Sending to ${domain} is suspended`).waitFor();
	// The scheduler learns of it within half a second: a mail that was accepted later arrives once it has left this
	// one.
	const id = await waitFor('mail that waits', async () => {
		const sent = await send(`ann@${domain}`);
		await hasStatus(await send('ann@well.example'), 'delivered');
		const {text} = await operator.get(`/queue/${domain}`);
		return new RegExp(`In flight</dt><dd>0<[\\s\\S]*${sent}[\\s\\S]{0,600}suspended`).test(text) ? sent : null;
	});
	await page.reload();
	await press('More', 'summary');
	await press('Hold…', 'summary');
	await type('Reason', 'I ask the customer');
	await press('Hold all');
	await page.getByText('held.', {exact: false}).first().waitFor();
	await press('Resume');
	await page.getByText(`Sending to ${domain} resumed.`).waitFor();
	t.is(await statusOf(id), 'accepted');

	await openRow(domain);
	await page.getByText('I ask the customer').first().waitFor();
	await suitsAll(page);
	await press('Release');
	await page.getByText('released.').waitFor();
	await hasStatus(id, 'delivered');
});

journey('a user finds a scheduled message, reschedules it, and cancels it', async (t, {open, own, suitsAll}) => {
	const to = own('later@dest.example');
	const id = await send(to, {sendAt: '+2h'});
	const {page, press, type, go, open: openRow} = await open(await visitorOf(service(), 'operator', 'shop'));
	await page.goto('/overview');
	await go('Messages');
	await press('scheduled', 'a');
	t.regex(await page.locator('main tbody tr', {hasText: to}).innerText(), /in [12] h/);
	await suitsAll(page);
	await openRow(to);
	await press('Change time', 'summary');
	await type('Time', '+3d');
	await suitsAll(page);
	await press('Change time');
	await page.getByText('Message rescheduled.').waitFor();
	t.regex(await page.locator('#head').innerText(), /Scheduled for\s+in [23] d/);
	t.regex(await page.locator('main').innerText(), /Scheduled for 20/);
	await press('More', 'summary');
	await press('Cancel message…', 'summary');
	await suitsAll(page);
	await press('Cancel message');
	await page.getByText('Message canceled.').waitFor();
	t.is(await statusOf(id), 'errored');
	t.is(await page.locator('summary', {hasText: 'Change time'}).count(), 0);
	await go('Messages');
	await press('scheduled', 'a');
	t.is(await page.locator('main tbody tr', {hasText: to}).count(), 0);
});

journey('a user finds a bounce and how it was classified', async (t, {open, own, suitsAll}) => {
	const to = own('gone@dest.example');
	const id = await send(to);
	await hasStatus(id, 'delivered');
	const operator = await visitorOf(service(), 'operator', 'shop');
	const [ref = ''] = /X-Mailctl-Ref: \S+/.exec((await operator.get(`/messages/${id}/raw`)).text) ?? [];
	await comesBack(
		unmatchedBounce(to).replace('--b--', `--b\r\nContent-Type: text/rfc822-headers\r\n\r\n${ref}\r\n\r\n--b--`),
	);
	const {page, press, go, search, open: openRow} = await open(operator);
	await page.goto('/overview');
	await go('Messages');
	await press('bounced', 'a');
	await openRow(to);
	await press('Timeline', 'a');
	const came = page.locator('article', {hasText: 'Report: '});
	t.regex(await came.innerText(), /unknown_user/);
	t.regex(await came.innerText(), /550 5\.1\.1 no such user/);
	await suitsAll(page);

	await go('Suppressions');
	await search(to);
	t.regex(await page.locator('main tbody tr').innerText(), /hard bounce/);
	await press('the message', 'a');
	t.is(new URL(page.url()).pathname, `/w/shop/messages/${id}`);
});

journey('a user has a returned message explained', async (t, {open, own, suitsAll}) => {
	const about = own('unknown@dest.example');
	await comesBack(unmatchedBounce(about));
	const {page, press, go, type, choose, open: openRow} = await open(await visitorOf(service(), 'viewer'));
	await page.goto('/messages');
	await go('Returned');
	await openRow(about);
	await page.getByText('suppresses the address').waitFor();
	await go('Returned');
	await press('Explain a message or a reply', 'a');
	await type('Reply', '452 4.2.2 mailbox full');
	await choose('SMTP command', 'data');
	await press('Explain the reply');
	await page.getByText('suppresses nothing').waitFor();
	await suitsAll(page);
	await type('Message source', 'From: a@b.example\nSubject: hello\n\nhello');
	await press('Explain the message');
	await page.getByRole('heading', {name: 'Classification'}).waitFor();
	t.deepEqual(await service().program.cli('suppression', 'list', '--workspace', 'shop', '--reason', 'complaint'), []);
});
