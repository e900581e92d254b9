import {isObject, parseExact, writeExact} from '../kit/exact-json.ts';
import {hiddenValue} from '../mail/message.ts';

/**
 * Returns a send's variables as they are stored: `hiddenValue` replaces those that the template declares sensitive.
 * Returns `null` if there are none. A dotted name refers to a nested variable.
 *
 * @param data JSON
 */
export function withoutSensitive(data: string, names: readonly string[]): string | null {
	const variables = parseExact(data);
	const hidden = names.filter(name => hide(variables, name.split('.')));
	return hidden.length === 0 ? null : writeExact(variables);
}

/** Returns whether the variable was present. */
function hide(within: unknown, [first = '', ...rest]: readonly string[]): boolean {
	// In a list, it is hidden in each item: `items.code`.
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
