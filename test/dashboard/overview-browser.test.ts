import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {openWindow} from '../helpers/dashboard-browser.ts';
import type {Workspace} from '../helpers/service.ts';
import {clearOfNextHour, waitFor} from '../helpers/wait.ts';
import {browserFor, service} from './service.ts';

test('updates the charts of the overview live, and shows figures without scripts', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	await clearOfNextHour();
	const {url, workspaces} = service();
	const {live, from, templates} = workspaces.charted as Workspace;
	const visitor = await visitorOf(service(), 'viewer', 'charted');
	const {page, complaints} = await openWindow(browser, {url, visitor});
	const send = {from, to: 'ann@dest.example', templateId: templates.plain, data: {name: 'x'}};
	const {body} = await live.post<{id: string}>('/v1/messages', send);
	await waitFor('delivered', async () => {
		const {body: message} = await live.get<{status: string}>(`/v1/messages/${body.id}`);
		return message.status === 'delivered';
	});
	await page.goto('/messages');
	await page.keyboard.press('g');
	await page.keyboard.press('o');
	await page.waitForURL(/\/overview$/);
	await page.getByText('Messages by hour').first().waitFor();
	t.is(await page.locator('.chart canvas').count(), 3);
	t.regex(
		await page.locator('.u-legend').first().innerText(),
		/Accepted:?\s*1/,
		'the newest, while nothing is pointed at',
	);
	await page.setViewportSize({width: 500, height: 800});
	const fits = () =>
		page.evaluate(
			`[...document.querySelectorAll('.chart')].every(one => one.querySelector('canvas').clientWidth <= one.clientWidth)`,
		);
	await waitFor('charts as wide as the window', fits);
	await page.getByRole('link', {name: '30 days'}).click();
	await page.getByText('Messages by day').first().waitFor();
	await page.getByText('As a table').first().click();
	t.regex(await page.locator('.charted table').first().innerText(), /Accepted/);

	// What was opened stays open when the page follows what happens.
	await page.clock.install();
	await page.goto('/overview');
	await page.getByText('As a table').first().click();
	await page.evaluate(`document.addEventListener('htmx:after:swap', () => document.body.classList.add('swapped'))`);
	await page.clock.fastForward(31_000);
	await waitFor('the page fetched again', () => page.evaluate(`document.body.matches('.swapped')`));
	t.true(await page.locator('.charted table').first().isVisible());
	t.is(await page.locator('.chart canvas').count(), 3);
	t.deepEqual(complaints, []);

	const bare = await openWindow(browser, {url, visitor, script: false});
	await bare.page.goto('/overview');
	t.is(await bare.page.locator('.chart:visible').count(), 0);
	await bare.page.getByText('As a table').first().click();
	t.regex(await bare.page.locator('.charted table').first().innerText(), /\s1\s+1\s+0\s/);
});
