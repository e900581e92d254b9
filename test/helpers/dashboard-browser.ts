import axe from 'axe-core';
import type {Browser, BrowserContext, Page} from 'playwright-core';
import type {Visitor} from './dashboard.ts';

/** A browser's window in which somebody is logged in. What the page says wrong in its console is kept. */
export async function openWindow(
	browser: Browser,
	{url, visitor, script = true}: {readonly url: string; readonly visitor: Visitor; readonly script?: boolean},
): Promise<{readonly page: Page; readonly context: BrowserContext; readonly complaints: string[]}> {
	const context = await browser.newContext({baseURL: url, javaScriptEnabled: script});
	await context.addCookies(visitor.cookies().map(cookie => ({...cookie, url})));
	const page = await context.newPage();
	const complaints: string[] = [];
	page.on('console', message => {
		if (message.type() === 'error' || message.type() === 'warning') {
			complaints.push(message.text());
		}
	});
	page.on('pageerror', error => complaints.push(String(error)));
	return {page, context, complaints};
}

const sizes = [
	{width: 390, height: 780},
	{width: 1280, height: 800},
];

/** What axe finds wrong with a page as it is, on a phone and on a desk, light and dark: lines of text. */
export async function faultsOf(page: Page): Promise<string[]> {
	const faults: string[] = [];
	for (const size of sizes) {
		for (const colorScheme of ['light', 'dark'] as const) {
			await page.setViewportSize(size);
			await page.emulateMedia({colorScheme, reducedMotion: 'reduce'});
			// Evaluated by the debugger, which no Content-Security-Policy holds off.
			await page.evaluate(axe.source);
			const {violations} = (await page.evaluate('axe.run()')) as axe.AxeResults;
			const where = `${page.url()} ${size.width} ${colorScheme}`;
			faults.push(
				...violations.flatMap(({id, nodes}) =>
					nodes.map(node => `${where}: ${id} ${node.html} ${node.failureSummary}`),
				),
			);
			// Nothing may be wider than the window; a table scrolls in its own frame.
			const wide = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
			if (Number(wide) > 0) {
				faults.push(`${where}: ${wide} px wider than the window`);
			}
		}
	}
	return faults;
}

/** Presses Tab until the element with this tag and text has the focus. */
export async function tabTo(page: Page, tag: 'summary' | 'button' | 'a', text: string): Promise<void> {
	const isIt = `document.activeElement.localName === '${tag}' && document.activeElement.textContent.trim() === '${text}'`;
	await tabUntil(page, isIt, `${tag} ${text}`);
}

const mostTabs = 150;

/** Presses Tab until the page answers true to this expression. `what`: for whoever reads that it never did. */
export async function tabUntil(page: Page, expression: string, what: string): Promise<void> {
	for (let n = 0; n < mostTabs; n++) {
		await page.keyboard.press('Tab');
		if ((await page.evaluate(expression)) === true) {
			return;
		}
	}
	throw new Error(`Tab leads to no ${what} at ${page.url()}`);
}
