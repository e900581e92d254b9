import {access, constants} from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';
import type {ExecutionContext, TestFn} from 'ava';
import axe from 'axe-core';
import {type Browser, chromium} from 'playwright-core';
import {notRunHere} from './not-run-here.ts';

/** The first without windows: it takes less than half of the CPU time. */
const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];

/** How long a browser may take for anything: a machine that stands still for a minute must not end a wait. */
export const browserWaitMs = 180_000;

/** One browser for all tests of a file, closed after the last; `null` if there is none (the test has then said so). */
export function browserOf(test: TestFn): (t: ExecutionContext) => Promise<Browser | null> {
	let launching: Promise<Browser | null> | null = null;
	test.after.always(async () => await (await launching)?.close());
	return async t => {
		launching ??= launchBrowser();
		return (await launching) ?? saidMissing(t);
	};
}

function saidMissing(t: ExecutionContext): null {
	return notRunHere(t, 'there is no Chromium on the PATH (scripts/debian-browser.sh installs it)');
}

/** Null where there is none. */
export async function launchBrowser(): Promise<Browser | null> {
	const executablePath = await findOnPath(names);
	if (executablePath === null) {
		return null;
	}
	// Its sandbox does not start for root.
	const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
	return await chromium.launch({executablePath, args, timeout: browserWaitMs});
}

async function findOnPath(programs: readonly string[]): Promise<string | null> {
	for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
		for (const program of programs) {
			const file = path.join(folder, program);
			const isThere = await access(file, constants.X_OK).then(
				() => folder !== '',
				() => false,
			);
			if (isThere) {
				return file;
			}
		}
	}
	return null;
}

/** The rules of axe that look at colors: all that can differ between the themes, which change nothing else. */
export const ofColors = ['color-contrast', 'link-in-text-block'];

export type Look = {
	readonly name: string;
	readonly size: {readonly width: number; readonly height: number};
	readonly scheme: 'light' | 'dark';
};

const phone = {width: 375, height: 720};
const desktop = {width: 1280, height: 800};

/** The ways in which every page must look right. */
export const looks: readonly Look[] = [
	{name: 'phone-light', size: phone, scheme: 'light'},
	{name: 'phone-dark', size: phone, scheme: 'dark'},
	{name: 'desktop-light', size: desktop, scheme: 'light'},
	{name: 'desktop-dark', size: desktop, scheme: 'dark'},
];

/**
 * What axe finds wrong with a document in each of the looks, as lines of text. It is loaded by itself, with scripts.
 */
export async function accessibilityFaults(browser: Browser, html: string): Promise<string[]> {
	const context = await browser.newContext({bypassCSP: true});
	context.setDefaultTimeout(browserWaitMs);
	const faults: string[] = [];
	try {
		const page = await context.newPage();
		await page.route('**', route =>
			route.request().isNavigationRequest()
				? route.fulfill({contentType: 'text/html; charset=utf-8', body: html})
				: route.abort(),
		);
		await page.goto('http://page.test/');
		await page.evaluate(axe.source);
		for (const {name, size, scheme} of looks) {
			await page.setViewportSize(size);
			await page.emulateMedia({colorScheme: scheme});
			const options = scheme === 'dark' ? {runOnly: ofColors} : {};
			const {violations} = (await page.evaluate(`axe.run(${JSON.stringify(options)})`)) as axe.AxeResults;
			faults.push(
				...violations.flatMap(({id, nodes}) =>
					nodes.map(node => `${name}: ${id} ${node.html} ${node.failureSummary}`),
				),
			);
		}
	} finally {
		await context.close();
	}
	return faults;
}
