import {existsSync} from 'node:fs';
import {mkdir} from 'node:fs/promises';
import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import type {Browser, BrowserContext, Page} from 'playwright-core';
import {accessibilityFaults, browserOf, browserWaitMs, looks} from '../helpers/browser.ts';
import {type Program, prepareProgram, type Scope, type Settings, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const shots = 'docs/reference/ui';
const logo = `<svg xmlns="http://www.w3.org/2000/svg" width="212" height="44" font-family="Liberation Sans,Arial,sans-serif">
	<circle cx="22" cy="22" r="20" fill="#0a7d4f"/><path d="M13 29V17h18v12zM11 17l4-5h14l4 5" fill="none" stroke="#fff" stroke-width="2.4" stroke-linejoin="round"/>
	<text x="54" y="30" font-size="24" font-weight="700" fill="#14352a">Corner Shop</text></svg>`;

/** The daemon and the link of a message it sent. */
type Site = {readonly program: Program; readonly url: string; readonly shop: Welcome};

async function startSite(t: Scope, settings: Settings = {}): Promise<Site> {
	const program = await prepareProgram(t, settings);
	const {url} = await program.serve();
	await program.cli(
		...['workspace', 'update', '--brand-name', 'Corner Shop', '--brand-color', '#0a7d4f'],
		...['--brand-support', 'hello@shop.example'],
	);
	return {program, url, shop: await welcomeOf(program)};
}

const browserFor = browserOf(test);
const openSite = oncePerFile(test, async scope => {
	const site = await startSite(scope);
	await addTopic(site, 'news', 'Product news');
	return site;
});

async function send(
	{url, shop: {key, from, templateId}}: Site,
	fields: object = {},
): Promise<{id: string; code: string}> {
	const {body} = await call(`${url}/v1/messages`, key, {from, to: 'ada.lovelace@example.org', templateId, ...fields});
	const {id, error} = body as {id: string; error?: {code: string}};
	return {id, code: error?.code ?? 'accepted'};
}

async function addTopic({url, shop: {key}}: Site, code: string, name: string): Promise<void> {
	await call(`${url}/v1/unsubscribe-groups`, key, {code, name});
}

/** The unsubscribe link of a new message, from its header. */
async function newLink(site: Site, fields: object = {}): Promise<string> {
	const {id} = await send(site, fields);
	await waitFor('it is delivered', async () => {
		const {body} = await call(`${site.url}/v1/messages/${id}`, site.shop.key);
		return (body as {status: string}).status === 'delivered';
	});
	const mail = (await site.program.cliBytes('message', 'raw', id)).toString().replaceAll(/\r\n[ \t]+/g, '');
	return /^List-Unsubscribe: *<([^>]+)>/m.exec(mail)?.[1] ?? '';
}

/** A recipient's browser without scripts; requests to other hosts are answered here and recorded. */
async function openContext(browser: Browser, {url}: Site): Promise<{context: BrowserContext; foreign: string[]}> {
	const context = await browser.newContext({javaScriptEnabled: false});
	context.setDefaultTimeout(browserWaitMs);
	const foreign: string[] = [];
	await context.route(
		target => target.origin !== new URL(url).origin,
		route => {
			foreign.push(route.request().url());
			return route.fulfill({contentType: 'image/svg+xml', body: logo});
		},
	);
	return {context, foreign};
}

/** Checks what every page must satisfy, and saves screenshots under its name if they do not exist yet. */
async function look(t: ExecutionContext, browser: Browser, page: Page, name: string): Promise<void> {
	const shown = (await heading(page)) ?? '';
	t.deepEqual(await accessibilityFaults(browser, await page.content()), [], shown);
	t.is(await page.getByRole('heading').count(), 1, shown);
	await staysInside(t, page);
	for (const one of looks) {
		const file = `${shots}/unsubscribe-${name}-${one.name}.png`;
		if (process.env.UPDATE_SCREENSHOTS || !existsSync(file)) {
			await page.setViewportSize(one.size);
			await page.emulateMedia({colorScheme: one.scheme});
			await mkdir(shots, {recursive: true});
			await page.screenshot({path: file});
		}
	}
}

/** Nothing overflows a phone or desktop screen, and every button is large enough to tap. */
async function staysInside(t: ExecutionContext, page: Page): Promise<void> {
	const shown = (await heading(page)) ?? '';
	for (const {size, scheme} of looks.filter(one => one.scheme === 'light')) {
		await page.setViewportSize(size);
		await page.emulateMedia({colorScheme: scheme});
		t.is(await page.evaluate('document.documentElement.scrollWidth'), size.width, shown);
		for (const button of await page.getByRole('button').all()) {
			const box = await button.boundingBox();
			t.true((box?.height ?? 0) >= 44, shown);
		}
	}
}

const heading = (page: Page) => page.getByRole('heading', {level: 1}).textContent();

async function press(page: Page, name: string): Promise<void> {
	await Promise.all([page.waitForLoadState(), page.getByRole('button', {name, exact: true}).click()]);
}

test.serial('without scripts a recipient leaves a topic, resubscribes, and unsubscribes from everything', async t => {
	const browser = await browserFor(t);
	if (!browser) {
		return;
	}
	const site = openSite();
	const link = await newLink(site, {unsubscribeGroup: 'news'});
	const {context, foreign} = await openContext(browser, site);
	const page = await context.newPage();
	const errors: string[] = [];
	page.on('console', message => errors.push(message.text()));
	page.on('pageerror', error => errors.push(String(error)));

	await page.goto(link);
	t.is(await heading(page), 'Unsubscribe from “Product news”?');
	await look(t, browser, page, 'topic');
	t.is((await send(site, {unsubscribeGroup: 'news'})).code, 'accepted');

	await press(page, 'Unsubscribe from this topic');
	t.is(await heading(page), 'You are unsubscribed');
	t.is(page.url(), link, 'no redirect');
	await look(t, browser, page, 'topic-done');
	t.is((await send(site, {unsubscribeGroup: 'news'})).code, 'recipient_unsubscribed');

	await press(page, 'Subscribe again');
	t.is(await heading(page), 'You are subscribed again');
	await look(t, browser, page, 'undone');
	t.is((await send(site, {unsubscribeGroup: 'news'})).code, 'accepted');

	// Now with a logo, from another mail, by keyboard.
	await site.program.cli('workspace', 'update', '--brand-logo', 'https://cdn.shop.example/logo.svg');
	t.deepEqual(foreign, []);
	await page.goto(await newLink(site));
	t.is(await heading(page), 'Unsubscribe from Corner Shop?');
	await look(t, browser, page, 'all');
	await page.keyboard.press('Tab');
	t.regex(String(await page.evaluate('getComputedStyle(document.activeElement).outline')), /solid 3px/);
	await Promise.all([page.waitForLoadState(), page.keyboard.press('Enter')]);
	await page.getByRole('heading', {name: 'You are unsubscribed'}).waitFor();
	await look(t, browser, page, 'all-done');
	t.is((await send(site)).code, 'recipient_suppressed');

	await page.goto(link);
	t.is(await heading(page), 'You are already unsubscribed');
	await look(t, browser, page, 'already');
	t.deepEqual(errors, []);

	await page.goto(`${link.slice(0, -4)}0000`);
	t.is(await heading(page), 'This link does not work');
	await look(t, browser, page, 'forged');
	t.deepEqual([...new Set(foreign)], ['https://cdn.shop.example/logo.svg']);
	await context.close();
});

test.serial('without scripts a recipient stops optional messages and chooses topics', async t => {
	const browser = await browserFor(t);
	if (!browser) {
		return;
	}
	const site = openSite();
	const topic = (code: string, name: string, ...more: string[]) =>
		site.program.cli('topic', 'create', '--code', code, '--name', name, ...more);
	await topic('account', 'Your account', '--required', '--public', '--description', 'Codes to log in, and receipts');
	await site.program.cli(
		...['topic', 'update', 'news', '--public', '--description', 'What is new in our shop, once a month'],
	);
	await topic('offers', 'Offers', '--public');
	const to = 'grace.hopper@example.org';
	const {context} = await openContext(browser, site);
	const page = await context.newPage();
	await page.goto(await newLink(site, {to, unsubscribeGroup: 'account'}));
	t.is(await heading(page), 'Emails about “Your account” are required');
	await look(t, browser, page, 'required');
	await press(page, 'Stop all other emails');
	await look(t, browser, page, 'required-done');
	t.is((await send(site, {to, unsubscribeGroup: 'news'})).code, 'recipient_unsubscribed');

	await Promise.all([
		page.waitForLoadState(),
		page.getByRole('link', {name: 'Choose which emails you receive'}).click(),
	]);
	t.is(await heading(page), 'Email preferences');
	await page.getByLabel('Product news').check();
	await press(page, 'Save');
	t.is(await heading(page), 'Saved');
	await look(t, browser, page, 'preferences');
	t.is((await send(site, {to, unsubscribeGroup: 'news'})).code, 'accepted');
	t.is((await send(site, {to, unsubscribeGroup: 'offers'})).code, 'recipient_unsubscribed');
	await press(page, 'Pause for 30 days');
	await look(t, browser, page, 'preferences-paused');
	t.is((await send(site, {to, unsubscribeGroup: 'news'})).code, 'recipient_unsubscribed');
	await press(page, 'Resume emails');
	t.is((await send(site, {to, unsubscribeGroup: 'news'})).code, 'accepted');
	await press(page, 'Unsubscribe from everything');
	await staysInside(t, page);
	t.is((await send(site, {to, unsubscribeGroup: 'account'})).code, 'recipient_suppressed');
	await press(page, 'Subscribe again');
	t.is((await send(site, {to, unsubscribeGroup: 'account'})).code, 'accepted');
	for (const locale of ['de', 'fr', 'es']) {
		await page.goto(
			(await newLink(site, {to: `${locale}@example.org`, locale})).replace('/unsubscribe', '/preferences'),
		);
		t.is(await page.getAttribute('html', 'lang'), locale);
		await staysInside(t, page);
	}
	await context.close();
});

test.serial('shows a page for an expired link', async t => {
	const browser = await browserFor(t);
	if (!browser) {
		return;
	}
	const site = await startSite(t, {MAILCTL_TOKEN_LIFETIME: '1s'});
	const {context} = await openContext(browser, site);
	const page = await context.newPage();
	const link = await newLink(site);
	await waitFor('it has expired', async () => (await fetch(link)).status === 410);
	await page.goto(link);
	t.is(await heading(page), 'This link has expired');
	await look(t, browser, page, 'expired');
	await context.close();
});

test.serial('renders each language in a browser', async t => {
	const browser = await browserFor(t);
	if (!browser) {
		return;
	}
	const site = openSite();
	const {context} = await openContext(browser, site);
	const page = await context.newPage();
	for (const [locale, title, button, done] of [
		['de-AT', '„Product news“ abbestellen?', 'Dieses Thema abbestellen', 'Sie sind abgemeldet'],
		[
			'fr',
			'Se désabonner de «\u00a0Product news\u00a0»\u00a0?',
			'Se désabonner de ce thème',
			'Votre désabonnement est enregistré',
		],
		['es', '¿Darse de baja de «Product news»?', 'Darse de baja de este tema', 'Se ha dado de baja'],
	] as const) {
		await page.goto(await newLink(site, {to: `${locale}@example.org`, locale, unsubscribeGroup: 'news'}));
		t.is(await page.getAttribute('html', 'lang'), locale.slice(0, 2));
		t.is(await heading(page), title);
		await staysInside(t, page);
		await press(page, button);
		t.is(await heading(page), done);
	}
	await context.close();
});

test.serial('renders names that contain code as text, with scripts on', async t => {
	const browser = await browserFor(t);
	if (!browser) {
		return;
	}
	const site = openSite();
	const evil = `<script>document.title='owned'</script>"><img src=x onerror="document.title='owned'">`;
	await site.program.cli('workspace', 'update', '--brand-name', evil, '--brand-logo', 'none');
	await addTopic(site, 'evil', evil);
	const link = await newLink(site, {to: 'eve@example.org', unsubscribeGroup: 'evil'});
	const page = await browser.newPage();
	page.setDefaultTimeout(browserWaitMs);
	let dialogs = 0;
	page.on('dialog', dialog => {
		dialogs++;
		return dialog.dismiss();
	});
	await page.goto(link);
	for (const name of ['Unsubscribe from this topic', 'Subscribe again']) {
		t.is(await page.locator('script, img').count(), 0);
		t.true((await page.textContent('main'))?.includes(evil));
		t.not(await page.title(), 'owned');
		await press(page, name);
	}
	t.is(dialogs, 0);
});
