import type {Page} from 'playwright-core';
import {tabUntil} from './dashboard-browser.ts';

/** How somebody works: with the mouse where one can, or by the keyboard alone. */
export const ways = ['mouse', 'keys'] as const;
export type Way = (typeof ways)[number];

/** What people do with a page, either way. */
export type Hands = {
	/** A button, a link, or what opens a form. `row`: of the row of a table that has this text. */
	readonly press: (text: string, tag?: 'button' | 'a' | 'summary', row?: string) => Promise<void>;
	/** Into the field with this label. */
	readonly type: (label: string, text: string) => Promise<void>;
	readonly choose: (label: string, option: string, row?: string) => Promise<void>;
};

export const handsOn = (page: Page, way: Way): Hands => (way === 'mouse' ? byMouse(page) : byKeys(page));

/** Does what leads to another page, or saves a file, and waits until it is there. What opens a form leads nowhere. */
async function leading(page: Page, tag: string, act: () => Promise<void>): Promise<void> {
	const led = tag === 'summary' ? null : Promise.race([page.waitForEvent('load'), page.waitForEvent('download')]);
	await Promise.all([act(), led]);
}

function byMouse(page: Page): Hands {
	const inRow = (row = '') => (row === '' ? page.locator('body') : page.locator('tr', {hasText: row}));
	const field = (label: string, row?: string) =>
		inRow(row)
			.locator('label.field', {has: page.locator(`span:text-is(${JSON.stringify(label)})`)})
			.locator('input, select, textarea')
			.filter({visible: true})
			.first();
	return {
		async press(text, tag = 'button', row) {
			const whole = new RegExp(`^\\s*${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\s*$`);
			const found = inRow(row).locator(tag).filter({hasText: whole, visible: true}).first();
			await leading(page, tag, () => found.click());
		},
		type: async (label, text) => await field(label).fill(text),
		choose: async (label, option, row) => void (await field(label, row).selectOption({label: option})),
	};
}

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
	return {
		async press(text, tag = 'button', row) {
			const isIt = `document.activeElement.localName === '${tag}' && document.activeElement.textContent.trim() === ${JSON.stringify(text)}`;
			await tabUntil(page, `${isIt} && ${has(row)}`, `${tag} ${text}`);
			await leading(page, tag, () => keyboard.press('Enter'));
		},
		async type(label, text) {
			await toField(label);
			await keyboard.type(text);
		},
		/** In the opened list: a closed one would change with each key. */
		async choose(label, option, row) {
			await toField(label, row);
			await keyboard.press('Space');
			await keyboard.type(option);
			await keyboard.press('Enter');
		},
	};
}
