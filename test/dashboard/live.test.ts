import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {openWindow} from '../helpers/dashboard-browser.ts';
import type {Workspace} from '../helpers/service.ts';
import {browserFor, service} from './service.ts';

async function sent(workspace: string, to: string): Promise<void> {
	const {live, from, templates} = service().workspaces[workspace] as Workspace;
	const {status, text} = await live.post('/v1/messages', {from, to, templateId: templates.plain, data: {}});
	if (status !== 202) {
		throw new Error(text);
	}
}

test.serial('an open list shows a new message automatically, and none of another workspace', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const visitor = await visitorOf(service(), 'viewer', 'followed');
	const {page, complaints} = await openWindow(browser, {url: service().url, visitor});
	const stream = page.waitForResponse(response => response.url().endsWith('/live'));
	await page.goto('/messages');
	await stream;
	await sent('other', 'foreign@dest.example');
	await sent('followed', 'own@dest.example');
	await page.getByText('own@dest.example').waitFor();
	t.is(await page.getByText('foreign@dest.example').count(), 0);
	// The mark of the row and the focus stay where they are when the list is renewed.
	await page.keyboard.press('j');
	await sent('followed', 'second@dest.example');
	await page.getByText('second@dest.example').waitFor();
	t.regex(String(await page.evaluate('document.activeElement.textContent')), /own@dest\.example/);
	t.deepEqual(complaints, []);
});

test.serial('a page without a live slot stays unchanged and updates once one is free', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const visitor = await visitorOf(service(), 'viewer', 'followed');
	const cookie = visitor
		.cookies()
		.map(({name, value}) => `${name}=${value}`)
		.join('; ');
	const ending = new AbortController();
	const follow = () => fetch(`${service().url}/w/followed/live`, {headers: {cookie}, signal: ending.signal});
	const seats = await Promise.all(Array.from({length: 20}, follow));
	t.true(seats.every(({status}) => status === 200));
	const {page} = await openWindow(browser, {url: service().url, visitor});
	await page.clock.install();
	const answered = (status: number) =>
		page.waitForResponse(response => response.url().endsWith('/live') && response.status() === status);
	const refused = answered(429);
	await page.goto('/messages');
	await refused;
	const again = answered(429);
	await page.clock.runFor(31_000);
	await again;
	t.is(await page.locator('#messages-events').textContent(), '');
	ending.abort();
	const followed = answered(200);
	await page.clock.runFor(31_000);
	await followed;
});

test.serial('redirects a live page to the login after its session has ended', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const visitor = await visitorOf(service(), 'viewer', 'followed');
	const {page} = await openWindow(browser, {url: service().url, visitor});
	await page.goto('/messages?status=sent');
	await visitor.submit('/logout');
	// It looks by itself too, a second after it was opened: it may be on its way already.
	await page.evaluate(`document.body.dispatchEvent(new Event('mail'))`).catch(() => undefined);
	await page.waitForURL('**/login?to=*');
	t.is(new URL(page.url()).searchParams.get('to'), '/w/followed/messages?status=sent');
});
