import {badInNames} from './unprintable.ts';

// Controls would break lines of logs and tables; what turns the direction of writing makes one name look like another.
const blocked = new RegExp(`[${badInNames}\\ufeff]`, 'u');
const longest = 200;

/** What is wrong with a name that people give to a thing (a clause for people), or null: 1 to 200 characters on one line. */
export function labelFault(text: string): string | null {
	if (text.trim() !== text || text === '' || [...text].length > longest) {
		return 'must have 1 to 200 characters and no space at its ends';
	}
	return blocked.test(text) ? 'must not have control or direction characters' : null;
}
