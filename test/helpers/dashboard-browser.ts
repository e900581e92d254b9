import axe from 'axe-core';
import type {Browser, BrowserContext, Page} from 'playwright-core';
import {browserWaitMs, ofColors} from './browser.ts';
import type {Visitor} from './dashboard.ts';

/** A browser's window in which somebody is logged in. What the page says wrong in its console is kept. */
export async function openWindow(
	browser: Browser,
	{url, visitor, script = true}: {readonly url: string; readonly visitor: Visitor; readonly script?: boolean},
): Promise<{readonly page: Page; readonly context: BrowserContext; readonly complaints: string[]}> {
	const context = await browser.newContext({baseURL: url, javaScriptEnabled: script});
	context.setDefaultTimeout(browserWaitMs);
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

const phone = {width: 390, height: 780};
const desk = {width: 1280, height: 800};

/** A window in which a page is looked at. */
export type View = {
	readonly size: {readonly width: number; readonly height: number};
	readonly scheme: 'light' | 'dark';
};

const phoneView: View = {size: phone, scheme: 'light'};
export const deskView: View = {size: desk, scheme: 'light'};
export const darkView: View = {size: desk, scheme: 'dark'};
/** Between two of these all differs that can: the size changes what is there, the scheme the colors. */
export const allViews: readonly View[] = [phoneView, deskView, darkView];

/** What axe finds wrong with a page as it is, in each of the views: lines of text. */
export async function faultsOf(page: Page, views = allViews): Promise<string[]> {
	const faults: string[] = [];
	// Evaluated by the debugger, which no Content-Security-Policy holds off.
	if ((await page.evaluate('typeof axe')) === 'undefined') {
		await page.evaluate(axe.source);
	}
	for (const {size, scheme} of views) {
		await page.setViewportSize(size);
		await page.emulateMedia({colorScheme: scheme, reducedMotion: 'reduce'});
		// A mail's frame is of no origin: axe cannot look into it, and would only complain.
		const options = {iframes: false, resultTypes: ['violations'], ...(scheme === 'dark' && {runOnly: ofColors})};
		const found = (await page.evaluate(
			`axe.run(${JSON.stringify(options)}).then(({violations}) =>
				violations.flatMap(({id, nodes}) => nodes.map(node => id + ' ' + node.html + ' ' + node.failureSummary)))`,
		)) as string[];
		const where = `${page.url()} ${size.width} ${scheme}`;
		faults.push(...found.map(fault => `${where}: ${fault}`));
		// Nothing may be wider than the window; a table scrolls in its own frame.
		const wide = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
		if (Number(wide) > 0) {
			faults.push(`${where}: ${wide} px wider than the window`);
		}
	}
	return faults;
}

const maxTabs = 150;

/**
 * Presses Tab until the page answers true to this expression, if it does not yet. `what`: for whoever reads that it
 * never did.
 */
export async function tabUntil(page: Page, expression: string, what: string): Promise<void> {
	for (let n = 0; n < maxTabs; n++) {
		if ((await page.evaluate(expression)) === true) {
			return;
		}
		await page.keyboard.press('Tab');
	}
	throw new Error(`Tab leads to no ${what} at ${page.url()}`);
}
