import test from 'ava';
import type {Page} from 'playwright-core';
import {strangerTo, visitorOf} from '../helpers/dashboard.ts';
import {faultsOf} from '../helpers/dashboard-browser.ts';
import {journeysOf, type Window} from '../helpers/journeys.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

// What people do, from the first page to the last: once by mouse, once by the keyboard alone.
const service = serviceOf(test, {workspaces: {shop: [], other: [], third: []}});
const journey = journeysOf(test, service);
const password = 'correct horse battery';

const workspaceOf = (name: string) => service().workspaces[name] as Workspace;

async function send(workspace: string, to: string) {
	const {live, from, templates} = workspaceOf(workspace);
	return await live.post<{id: string}>('/v1/messages', {from, to, templateId: templates.plain, data: {name: 'Ann'}});
}

const pathOf = (id: string) => `/v1/messages/${id}`;
const statusOf = async (id: string) => (await workspaceOf('shop').live.get<{status: string}>(pathOf(id))).body.status;

/** The answer to a program that asks for its messages with a key. */
const answerTo = async (key: string) => (await service().api(key).get('/v1/messages')).status;

journey('one comes by a link, sets a password, and logs in with it', async (t, {open, own}) => {
	const {url, program} = service();
	const email = own('first@staff.example');
	const {link} = await program.cli<{link: string}>('user', 'add', email, '--role', 'viewer');
	const {page, type, press} = await open(strangerTo(url));
	await page.goto(link);
	await type('New password', password);
	await press('Set the password');
	await page.getByText('The password is set.').waitFor();
	await press('Log out');
	await page.getByText('You are logged out.').waitFor();
	await type('E-mail', email);
	await type('Password', password);
	await press('Log in');
	await page.getByRole('heading', {name: 'Messages'}).waitFor();
	t.is(new URL(page.url()).pathname, '/messages');
});

journey('a captured mail is opened and seen', async (t, {open, own}) => {
	const to = own('captured@dest.example');
	await send('shop', to);
	const {page, press} = await open(await visitorOf(service(), 'viewer', 'shop'));
	await page.goto('/');
	await press(to, 'a');
	await press('Preview', 'a');
	await page.frameLocator('iframe.frame').getByText('Hello Ann').waitFor();
	t.deepEqual(await faultsOf(page), []);
});

journey('a workspace is paused, what it sends is refused, and it is resumed', async (t, {open, own}) => {
	const {page, press, type} = await open(await visitorOf(service(), 'admin', 'third'));
	await page.goto('/messages');
	await press('Workspaces', 'a');
	await press('third', 'a');
	await type('Reason', 'under review');
	await press('Pause');
	await page.getByText('Paused: sends are refused').waitFor();
	t.deepEqual(await faultsOf(page), []);
	t.is((await send('third', own('ann@dest.example'))).status, 403);
	await press('Resume');
	await page.getByText('It sends again').waitFor();
	t.is((await send('third', own('ann@dest.example'))).status, 202);
});

journey('a viewer goes everywhere and finds nothing to change', async (t, {open}) => {
	await send('shop', 'ann@dest.example');
	const {page, press} = await open(await visitorOf(service(), 'viewer', 'shop'));
	await page.goto('/messages');
	const places = await page.locator('nav.side .menu li a').allInnerTexts();
	t.is(places.length, 16);
	for (const place of places) {
		await press(place, 'a');
		await page.waitForURL(new RegExp(`/${place.toLowerCase()}`));
		const isOpen = (await page.getByText('this needs the role').count()) === 0;
		t.is(isOpen, !['Users', 'Audit', 'Health'].includes(place), place);
		for (const form of await page.locator('main form[method=post]').all()) {
			t.is(await form.getAttribute('action'), '/returned/explain', place);
		}
	}
});

journey('what another workspace has stays unseen', async (t, {open, own}) => {
	const to = own('secret@dest.example');
	const {body} = await send('shop', to);
	const {page, press, type} = await open(await visitorOf(service(), 'admin', 'other'));
	await page.goto(`/messages/${body.id}`);
	await page.getByRole('heading', {name: 'Not found'}).waitFor();
	await press('Go to the start', 'a');
	await page.waitForURL(/\/messages$/);
	t.is(await page.getByText(to).count(), 0);
	await type('Search', to);
	await page.keyboard.press('Enter');
	await page.waitForURL(/q=/);
	t.is(await page.locator('a[data-row]').count(), 0);
	await press('Workspaces', 'a');
	await page.waitForURL(/\/workspaces$/);
	t.deepEqual(await page.locator('a[data-row]').allInnerTexts(), ['other']);
});

journey('one logs out everywhere else', async (t, {open, own}) => {
	const {url, program} = service();
	const email = own('lost@staff.example');
	const [here, lost] = [strangerTo(url), strangerTo(url)];
	for (const [visitor, verb] of [[here, 'add'] as const, [lost, 'link'] as const]) {
		const role = verb === 'add' ? ['--role', 'viewer'] : [];
		const {link} = await program.cli<{link: string}>('user', verb, email, ...role);
		await visitor.get(new URL(link).pathname);
	}
	const [first, second] = [await open(here), await open(lost)];
	await second.page.goto('/messages');
	await first.page.goto('/messages');
	await first.press(email, 'a');
	await first.press('Log out everywhere else');
	await first.page.getByText('All other sessions have ended.').waitFor();
	await second.page.reload();
	t.is(new URL(second.page.url()).pathname, '/login');
});

journey('mail is held, and released when one knows more', async (t, {open, own}) => {
	const operator = await visitorOf(service(), 'operator');
	await operator.submit('/workspaces/use', {workspace: workspaceOf('shop').id});
	const {page, press, type} = await open(operator);
	const domain = own('held.example');
	await page.goto('/messages');
	await press('Queue', 'a');
	await press('Suspend a domain', 'summary');
	await type('Domain', domain);
	await press('Suspend');
	await page.getByText(`Nothing is sent to ${domain}`).waitFor();
	// The scheduler learns of it within half a second.
	const id = await waitFor('mail that waits', async () => {
		const {body} = await send('shop', `ann@${domain}`);
		const {text} = await operator.get(`/queue/${domain}`);
		return new RegExp(`${body.id}[\\s\\S]{0,600}suspended`).test(text) ? body.id : null;
	});
	await page.reload();
	await press('Hold', 'summary');
	await type('Reason', 'I ask the customer');
	await press('Hold all of it');
	await page.getByText('held.', {exact: false}).first().waitFor();
	await press('Resume');
	await page.getByText(`Mail to ${domain} goes again.`).waitFor();
	t.is(await statusOf(id), 'accepted');
	await press(domain, 'a');
	await press('Release');
	await page.getByText('released.').waitFor();
	await waitFor('the mail', async () => (await statusOf(id)) === 'delivered');
});

/** Makes a key from the page that lists them; the key. */
async function madeKey({page, press, type}: Window, name: string): Promise<string> {
	await page.goto('/messages');
	await press('Keys', 'a');
	await press('New key', 'summary');
	await type('Name', name);
	await press('Make the key');
	return await shownKey(page);
}

/** The only page that has it. */
const shownKey = (page: Page): Promise<string> => page.locator('.copyable code').innerText();

journey('a key is made and ended', async (t, {open, own}) => {
	const window = await open(await visitorOf(service(), 'admin', 'shop'));
	const {page, press} = window;
	const key = await madeKey(window, own('short'));
	t.deepEqual(await faultsOf(page), []);
	t.is(await answerTo(key), 200);
	await press('To the keys', 'a');
	await press('Change', 'summary', own('short'));
	t.deepEqual(await faultsOf(page), []);
	await press('End it now', 'button', own('short'));
	await page.getByText(`${own('short')} is ended.`).waitFor();
	t.is(await answerTo(key), 401);
});
