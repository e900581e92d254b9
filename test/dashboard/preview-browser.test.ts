import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {faultsOf, openWindow} from '../helpers/dashboard-browser.ts';
import {hostileHtml, openTrap, type Trap} from '../helpers/hostile-html.ts';
import type {Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {browserFor, service} from './service.ts';

/** The globals of a page that Node.js lacks. */
type Styled = {readonly getComputedStyle: (element: unknown) => {readonly color: string}};

async function sent(data: object, more: object = {}): Promise<string> {
	const {live, from, templates} = service().workspaces.looked as Workspace;
	const send = {from, to: 'ann@dest.example', templateId: templates.mail, data, ...more};
	const {body} = await live.post<{id: string}>('/v1/messages', send);
	await waitFor('the mail', async () => {
		return (await live.get<{status: string}>(`/v1/messages/${body.id}`)).body.status === 'delivered';
	});
	return body.id;
}

test.serial('the first message appears automatically and is previewed on a phone and in dark mode', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const visitor = await visitorOf(service(), 'operator', 'looked');
	const {page, complaints} = await openWindow(browser, {url: service().url, visitor});
	await page.goto('/');
	await page.getByText('No messages yet.').waitFor();
	await sent({
		subject: 'Your receipt',
		body: '<style>h1 { color: #111 } @media (prefers-color-scheme: dark) { h1 { color: #eee } }</style><h1>Thanks, Ann</h1>',
	});
	await page.getByRole('heading', {name: 'Newest message: Your receipt'}).waitFor();
	const mail = page.frameLocator('iframe.frame').getByRole('heading', {name: 'Thanks, Ann'});
	await mail.waitFor();
	t.deepEqual(await faultsOf(page), []);

	// From here on as the frame says: what a test sets holds for frames too.
	await page.emulateMedia({colorScheme: null});
	const colour = () => mail.evaluate(h1 => (globalThis as unknown as Styled).getComputedStyle(h1).color);
	await page.getByRole('link', {name: 'ann@dest.example'}).click();
	await page.getByRole('heading', {name: 'Your receipt', exact: true}).waitFor();
	t.is(await colour(), 'rgb(17, 17, 17)');
	await page.getByRole('link', {name: 'Phone'}).click();
	await page.waitForURL(/look=phone/);
	await page.getByRole('link', {name: 'Dark'}).click();
	await page.waitForURL(/scheme=dark/);
	t.is(await colour(), 'rgb(238, 238, 238)');
	await page.locator('summary', {hasText: 'More'}).click();
	t.deepEqual(await faultsOf(page), []);
	await page.getByRole('button', {name: 'Send again'}).click();
	await page.getByText('Message sent again. This is the new message.').waitFor();
	t.deepEqual(complaints, []);
});

test.serial('open menus suit every window', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const visitor = await visitorOf(service(), 'operator', 'looked');
	const {live, from, templates} = service().workspaces.looked as Workspace;
	const send = {from, to: 'ann@later.example', templateId: templates.mail, data: {subject: 'Menu', body: ''}};
	const {body} = await live.post<{id: string}>('/v1/messages', {...send, sendAt: '+2h'});
	const {page, context} = await openWindow(browser, {url: service().url, visitor});
	t.teardown(() => context.close());
	for (const path of [`/messages/${body.id}`, '/queue/menu.example']) {
		await page.goto(path);
		for (const summary of await page.locator('.menu, .menu .item').locator('> summary').all()) {
			await summary.click();
		}
		t.is(await page.locator('.menu .item:not([open])').count(), 0, path);
		t.deepEqual(await faultsOf(page), [], path);
	}
});

test.serial('finds an order by its number without scripts', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const metadata = {order_id: '1043'};
	await sent({subject: 'Order 1043', body: '<p>1043</p>'}, {metadata, to: 'customer@dest.example'});
	const visitor = await visitorOf(service(), 'viewer', 'looked');
	const {page} = await openWindow(browser, {url: service().url, visitor, script: false});
	await page.goto('/messages');
	await page.getByLabel('Search', {exact: true}).fill('order_id=1043');
	await page.getByRole('button', {name: 'Search'}).click();
	await page.locator('a[data-row]').first().click();
	await page.frameLocator('iframe.frame').getByText('1043').waitFor();
	await page.getByRole('link', {name: 'Timeline'}).click();
	await page.getByRole('link', {name: 'order_id=1043'}).click();
	await page.getByRole('link', {name: 'order_id=1043'}).click();
	// The search is taken back by its chip.
	await page.locator('main tbody tr').nth(1).waitFor();
	t.is(new URL(page.url()).searchParams.get('q') ?? '', '');
});

test.serial('a hostile message in the preview loads nothing and changes nothing', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const trap: Trap = await openTrap(t);
	const id = await sent({subject: 'Hostile', body: hostileHtml(trap.url)});
	const visitor = await visitorOf(service(), 'viewer', 'looked');
	const {page, context} = await openWindow(browser, {url: service().url, visitor});
	const path = `/w/looked/messages/${id}/preview`;
	await page.goto(path, {waitUntil: 'load'});
	const frame = page.frameLocator('iframe.frame');
	await frame.getByText('Click here').waitFor({state: 'attached'});

	// What people do with it, by mouse and by keyboard.
	const box = await page.locator('iframe.frame').boundingBox();
	for (const at of [0.1, 0.5, 0.9]) {
		await page.mouse.click((box?.x ?? 0) + (box?.width ?? 0) * at, (box?.y ?? 0) + (box?.height ?? 0) * at);
	}
	for (const one of await frame.locator('a, area, input, button, summary').all()) {
		// Some cannot be focused, which is as well.
		await one.focus();
		await page.keyboard.press('Enter');
	}
	t.is(new URL(page.url()).pathname, path);
	t.regex(await page.title(), / · Hostile$/);
	t.is(context.pages().length, 1, 'no window was opened');
	const heading = page.getByRole('heading', {name: 'Hostile'});
	await heading.click();
	t.is(
		await page.evaluate(
			"document.elementFromPoint(document.querySelector('h1').getBoundingClientRect().x + 4, document.querySelector('h1').getBoundingClientRect().y + 4).tagName",
		),
		'H1',
	);
	t.deepEqual(await faultsOf(page), []);
	t.deepEqual(trap.caught, []);

	// With its images it reaches the host of those, and by nothing else.
	await page.getByRole('link', {name: 'Show remote images'}).click();
	await waitFor('the images', () => trap.caught.includes('/img') && trap.caught.includes('/over'));
	await page.goto('/messages');
	const images = [
		'connected',
		'/img',
		'/srcset',
		'/source',
		'/table',
		'/body',
		'/html',
		'/background',
		'/over',
		'/list',
		'/content',
		'/style',
		'/poster',
		'/svg',
		'/cursor',
		'/input',
		'/lowsrc',
	];
	t.deepEqual(
		[...new Set(trap.caught)].filter(one => !images.includes(one)),
		[],
	);
});
