import {isObject, parseExact, writeExact} from '../kit/exact-json.ts';
import {hiddenValue} from '../mail/message.ts';

/**
 * The variables of a send as they are kept: `hiddenValue` in the place of those that their template calls sensitive;
 * null: it has no such variable. A dotted name is that of a variable within another.
 *
 * @param data JSON
 */
export function withoutSensitive(data: string, names: readonly string[]): string | null {
	const variables = parseExact(data);
	const hidden = names.filter(name => hide(variables, name.split('.')));
	return hidden.length === 0 ? null : writeExact(variables);
}

/** Whether it was there. */
function hide(within: unknown, [first = '', ...rest]: readonly string[]): boolean {
	// Each of a list: `items.code`.
	if (Array.isArray(within)) {
		return within.map(item => hide(item, [first, ...rest])).includes(true);
	}
	if (!isObject(within) || !Object.hasOwn(within, first)) {
		return false;
	}
	if (rest.length > 0) {
		return hide(within[first], rest);
	}
	within[first] = hiddenValue;
	return true;
}
