import type {Page} from 'playwright-core';
import {tabUntil} from './dashboard-browser.ts';

/** How somebody works: with the mouse where one can, or by the keyboard alone. */
export const ways = ['mouse', 'keys'] as const;
export type Way = (typeof ways)[number];

/** What people do with a page, either way. */
export type Hands = {
	/** To a page of the navigation. */
	readonly go: (place: string) => Promise<void>;
	/** The row of a list that has this text. */
	readonly open: (row: string) => Promise<void>;
	readonly search: (text: string) => Promise<void>;
	/** A button, a link, or what opens a form. `row`: of the row of a table that has this text. */
	readonly press: (text: string, tag?: 'button' | 'a' | 'summary', row?: string) => Promise<void>;
	/** Into the field with this label, instead of what stands there. */
	readonly type: (label: string, text: string) => Promise<void>;
	readonly choose: (label: string, option: string, row?: string) => Promise<void>;
	/** The box with this label. */
	readonly tick: (label: string) => Promise<void>;
	/** What has a button that copies it. */
	readonly copy: (what: string) => Promise<void>;
	/** A file, in the system's own window that the field opens. */
	readonly attach: (label: string, file: string) => Promise<void>;
};

export function handsOn(page: Page, way: Way): Hands {
	// The browser leaves windows for files to us from the start: asked for at the moment of opening, it may come too
	// late.
	page.on('filechooser', () => undefined);
	return way === 'mouse' ? byMouse(page) : byKeys(page);
}

/** Does what leads to another page, or saves a file, and waits until it is there. What opens a form leads nowhere. */
async function leading(page: Page, tag: string, act: () => Promise<void>): Promise<void> {
	const led = tag === 'summary' ? null : Promise.race([page.waitForEvent('load'), page.waitForEvent('download')]);
	await Promise.all([act(), led]);
}

async function choosing(page: Page, file: string, act: () => Promise<void>): Promise<void> {
	const [chooser] = await Promise.all([page.waitForEvent('filechooser'), act()]);
	await chooser.setFiles(file);
}

function byMouse(page: Page): Hands {
	const inRow = (row = '') => (row === '' ? page.locator('body') : page.locator('tr', {hasText: row}));
	const field = (label: string, row?: string) =>
		inRow(row)
			.locator('label.field', {has: page.locator(`span:text-is(${JSON.stringify(label)})`)})
			.locator('input, select, textarea')
			.filter({visible: true})
			.first();
	const click = (selector: string, text: string | RegExp, row?: string) =>
		leading(page, selector, () =>
			inRow(row).locator(selector).filter({hasText: text, visible: true}).first().click(),
		);
	const whole = (text: string) => new RegExp(`^\\s*${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\s*$`);
	return {
		go: place => click('nav.side li a', whole(place)),
		open: row => click('a[data-row]', '', row),
		async search(text) {
			await page.locator('main input[type=search]').fill(text);
			await click('main form[role=search] button', whole('Search'));
		},
		press: (text, tag = 'button', row = '') => click(tag, whole(text), row),
		type: async (label, text) => await field(label).fill(text),
		choose: async (label, option, row) => void (await field(label, row).selectOption({label: option})),
		tick: async label => await field(label).check(),
		copy: async what => await page.getByRole('button', {name: `Copy ${what}`, exact: true}).click(),
		attach: (label, file) => choosing(page, file, () => field(label).click()),
	};
}

/** Pages that a key leads to, after `g`; Tab leads to the others. */
const letters: Readonly<Record<string, string>> = {
	...{Messages: 'm', Overview: 'o', Queue: 'q', Domains: 'd'},
	...{Templates: 't', Suppressions: 's', Webhooks: 'w', Health: 'h'},
};
const maxRows = 60;

function byKeys(page: Page): Hands {
	const {keyboard} = page;
	const has = (row = '') =>
		row === '' ? 'true' : `document.activeElement.closest('tr')?.textContent.includes(${JSON.stringify(row)})`;
	const toField = (label: string, row?: string) =>
		tabUntil(
			page,
			`document.activeElement.closest('label.field')?.querySelector('span')?.textContent === ${JSON.stringify(label)} && ${has(row)}`,
			`field ${label}`,
		);
	const press: Hands['press'] = async (text, tag = 'button', row = '') => {
		const isIt = `document.activeElement.localName === '${tag}' && document.activeElement.textContent.trim() === ${JSON.stringify(text)}`;
		await tabUntil(page, `${isIt} && ${has(row)}`, `${tag} ${text}`);
		await leading(page, tag, () => keyboard.press('Enter'));
	};
	return {
		press,
		async go(place) {
			const letter = letters[place];
			if (letter === undefined) {
				await press(place, 'a');
				return;
			}
			await keyboard.press('g');
			await leading(page, 'a', () => keyboard.press(letter));
		},
		async open(row) {
			for (let n = 0; n < maxRows; n++) {
				await keyboard.press('j');
				if (await page.evaluate(`document.activeElement.matches('a[data-row]') && ${has(row)}`)) {
					await leading(page, 'a', () => keyboard.press('Enter'));
					return;
				}
			}
			throw new Error(`j leads to no row ${row} at ${page.url()}`);
		},
		async search(text) {
			await keyboard.press('/');
			await keyboard.type(text);
			await leading(page, 'a', () => keyboard.press('Enter'));
		},
		async type(label, text) {
			await toField(label);
			await keyboard.press('ControlOrMeta+A');
			await keyboard.type(text);
		},
		/** In the opened list: a closed one would change with each key. */
		async choose(label, option, row) {
			await toField(label, row);
			await keyboard.press('Space');
			await keyboard.type(option);
			await keyboard.press('Enter');
		},
		async tick(label) {
			await toField(label);
			await keyboard.press('Space');
		},
		async copy(what) {
			await tabUntil(
				page,
				`document.activeElement.ariaLabel === ${JSON.stringify(`Copy ${what}`)}`,
				`button that copies ${what}`,
			);
			await keyboard.press('Enter');
		},
		async attach(label, file) {
			await toField(label);
			await choosing(page, file, () => keyboard.press('Enter'));
		},
	};
}
