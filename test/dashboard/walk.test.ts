import test from 'ava';
import type {Page} from 'playwright-core';
import {browserOf} from '../helpers/browser.ts';
import {strangerTo, type Visitor, visitorOf} from '../helpers/dashboard.ts';
import {allViews, darkView, deskView, faultsOf, openWindow, type View} from '../helpers/dashboard-browser.ts';
import {emptyPaths, fill, openPaths} from '../helpers/dashboard-pages.ts';
import {routes} from '../helpers/dashboard-routes.ts';
import {oidcSettings, startOidcProvider} from '../helpers/oidc-provider.ts';
import {serviceOf} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

// Every page of the table of routes, with nothing and with something of each kind to show: a new one is walked without
// being named.
const service = serviceOf(test, {
	workspaces: {shop: [], other: []},
	settings: async scope => oidcSettings(await startOidcProvider(scope)),
});
const browserFor = browserOf(test);

let admin: Visitor;
/** Paths of all pages that an admin can open. */
let paths: readonly string[] = [];

const phone = {width: 390, height: 780};
const tooWide = `[...document.querySelectorAll('html, .scroll')].filter(one => one.scrollWidth > one.clientWidth && one.checkVisibility())`;

/**
 * The accessibility problems of pages with everything expanded and, on a phone, pages that scroll sideways.
 */
async function faultsAmong(page: Page, walked: readonly string[], views: readonly View[]): Promise<string[]> {
	const faults: string[] = [];
	for (const path of walked) {
		await page.setViewportSize(phone);
		await page.goto(path);
		const wider = await page.evaluate<string[]>(`${tooWide}.map(one => one.ariaLabel ?? one.localName)`);
		faults.push(...wider.map(one => `${path} is too wide for a phone: ${one}`));
		await page.evaluate(`document.querySelectorAll('main details').forEach(one => { one.open = true; })`);
		faults.push(...(await faultsOf(page, views)));
	}
	return faults;
}

test.serial('every empty page is accessible', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	admin = await visitorOf(service(), 'admin');
	await admin.submit('/workspaces', {name: 'empty'});
	const {page, context} = await openWindow(browser, {url: service().url, visitor: admin});
	t.teardown(() => context.close());
	const walked = await emptyPaths(admin);
	t.true(walked.length > 15, `${walked}`);
	t.deepEqual(await faultsAmong(page, [...walked, '/messages/nothing'], [deskView]), []);
	const stranger = strangerTo(service().url);
	const open = await openPaths(stranger);
	t.true(open.length > 2, `${open}`);
	const outside = await openWindow(browser, {url: service().url, visitor: stranger});
	t.teardown(() => outside.context.close());
	t.deepEqual(await faultsAmong(outside.page, open, allViews), []);
});

test.serial('every filled page is accessible and fits a phone', async t => {
	paths = await fill(service(), admin);
	t.true(paths.length > 30, `${paths}`);
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const {page, context} = await openWindow(browser, {url: service().url, visitor: admin});
	t.teardown(() => context.close());
	t.deepEqual(await faultsAmong(page, [...paths, '/confirm'], [deskView, darkView]), []);
});

test.serial('shows status and time in the list of messages on a phone', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const {page, context} = await openWindow(browser, {url: service().url, visitor: admin});
	t.teardown(() => context.close());
	await page.setViewportSize(phone);
	await page.goto('/messages');
	t.true((await page.locator('main tbody tr').count()) > 5);
	t.is(
		await page.evaluate(
			`(box => box.scrollWidth - box.clientWidth)(document.querySelector('[aria-label="Messages"]'))`,
		),
		0,
	);
	for (const row of await page.locator('main tbody tr').all()) {
		t.true((await row.locator('.badge').first().isVisible()) && (await row.locator('time').isVisible()));
		t.true(
			((await row.locator('td').first().boundingBox())?.width ?? 0) > 100,
			'and there is room for the recipient',
		);
	}
	const cut = page.locator('main td.cut').first();
	// The list is fetched again a second after it was opened, which takes the title away until the next pointing.
	await waitFor('the whole text of what is cut', async () => {
		await page.mouse.move(0, 0);
		await cut.hover();
		return (await cut.getAttribute('title')) === (await cut.innerText());
	});
});

test.serial('viewers have no forms except for logout, view settings and their account', async t => {
	const viewer = await visitorOf(service(), 'viewer');
	const allowed = /^\/(?:logout|workspaces\/use|returned\/explain|account\/.*)$/;
	for (const path of paths) {
		const {text} = await viewer.get(path);
		const actions = [...text.matchAll(/<form method="post" action="([^"]+)"/g)].map(([, to = '']) => to);
		t.deepEqual(
			actions.filter(to => !allowed.test(to)),
			[],
			path,
		);
	}
});

const isOf = (pathname: string, pattern: string) =>
	new RegExp(`^${pattern.replaceAll(/:\w+/g, '[^/]+')}$`).test(pathname);

/** The route of a link, which decides who may follow it. */
function routeOf(href: string): string {
	const {pathname} = new URL(href, service().url);
	const all = routes.filter(({method}) => method === 'GET').map(({path}) => path);
	return all.find(path => path === pathname) ?? all.find(path => isOf(pathname, path)) ?? href;
}

for (const [role, workspace] of [
	['viewer', undefined],
	['operator', undefined],
	['viewer', 'shop'],
	['operator', 'shop'],
	['admin', 'shop'],
] as const) {
	test.serial(`no page of ${role} of ${workspace ?? 'all workspaces'} links to a 403`, async t => {
		const visitor = await visitorOf(service(), role, workspace);
		const followed = new Set<string>();
		for (const path of paths) {
			const {text} = await visitor.get(path);
			for (const [, href = ''] of text.matchAll(/<a [^>]*href="(\/[^"]*)"/g)) {
				const to = href.replaceAll('&amp;', '&');
				if (!followed.has(routeOf(to))) {
					followed.add(routeOf(to));
					t.not((await visitor.get(to)).status, 403, `${path} leads to ${to}`);
				}
			}
		}
		t.true(followed.size > 30, [...followed].join(' '));
	});
}

test.serial('shows the content of every page without scripts', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const {page, context} = await openWindow(browser, {url: service().url, visitor: admin, script: false});
	t.teardown(() => context.close());
	for (const path of paths) {
		await page.goto(path);
		t.is(await page.locator('h1').count(), 1, path);
		const shown = await page.locator('main > :not(header)').allInnerTexts();
		t.true(shown.join('').trim().length > 10, path);
		// What scripts would fetch has a link to the same; what they would make work is not offered.
		t.is(await page.locator('main [data-copy]:visible, main [data-passkeys]:visible').count(), 0, path);
	}
});
