import test from 'ava';
import {openBrowser} from '../helpers/browser.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {faultsOf, openWindow} from '../helpers/dashboard-browser.ts';
import {hostileHtml, openTrap, type Trap} from '../helpers/hostile-html.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

const service = serviceOf(test, {
	workspaces: {shop: []},
	// The mail is what the caller says.
	templates: {letter: {'template.json': '{"subject":"{{ subject }}"}', 'body.html': '{{ body | raw }}'}},
});

async function sent(data: object): Promise<string> {
	const {live, from, templates} = service().workspaces.shop as Workspace;
	const send = {from, to: 'ann@dest.example', templateId: templates.letter, data};
	const {body} = await live.post<{id: string}>('/v1/messages', send);
	await waitFor('the mail', async () => {
		return (await live.get<{status: string}>(`/v1/messages/${body.id}`)).body.status === 'delivered';
	});
	return body.id;
}

test('hostile mail in the preview reaches nothing and touches nothing', async t => {
	const browser = await openBrowser(t);
	if (browser === null) {
		return;
	}
	const trap: Trap = await openTrap(t);
	const id = await sent({subject: 'Hostile', body: hostileHtml(trap.url)});
	const visitor = await visitorOf(service(), 'viewer');
	const {page, context} = await openWindow(browser, {url: service().url, visitor});
	const path = `/messages/${id}/preview`;
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
		await one.focus({timeout: 1000});
		await page.keyboard.press('Enter');
	}
	t.is(new URL(page.url()).pathname, path);
	t.is(await page.title(), 'Hostile · mailctl');
	t.is(context.pages().length, 1, 'no window was opened');
	const heading = page.getByRole('heading', {name: 'Hostile'});
	await heading.click({timeout: 5000});
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
