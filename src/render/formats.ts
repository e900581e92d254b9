import {Numeral} from '../kit/exact-json.ts';
import {currencyFormat, dateFormat} from './intl.ts';
import {readMoment} from './moment.ts';

/** The language and time zone of a mail: a BCP 47 tag and an IANA zone. */
export type Place = {readonly locale: string; readonly timezone: string};

const styles = ['short', 'medium', 'long', 'full'] as const;
type Style = (typeof styles)[number];

const decimal = /^-?\d{1,30}(?:\.\d{1,20})?$/;

/** Formats an amount; undefined where the amount or the currency does not exist. */
export function formatCurrency({locale}: Place, amount: unknown, code: unknown): string | undefined {
	const value = decimalOf(amount);
	if (value === undefined || typeof code !== 'string' || !/^[a-z]{3}$/i.test(code)) {
		return undefined;
	}
	return currencyFormat(locale, code)?.format(value);
}

/** Formats a moment; undefined where it or a style does not exist. A style of undefined leaves that half out. */
export function formatDate(
	{locale, timezone}: Place,
	moment: unknown,
	dateStyle: unknown,
	timeStyle: unknown,
): string | undefined {
	const read = readMoment(moment);
	if (!read || !isStyle(dateStyle) || !(timeStyle === undefined || isStyle(timeStyle))) {
		return undefined;
	}
	const timeZone = read.wholeDay ? 'UTC' : timezone;
	return dateFormat(locale, {timeZone, dateStyle, ...(timeStyle && {timeStyle})})?.format(read.at);
}

function isStyle(value: unknown): value is Style {
	return styles.includes(value as Style);
}

/** Text of digits stays text, so that no cent is lost in a double. */
function decimalOf(amount: unknown): Intl.StringNumericLiteral | number | undefined {
	const text = amount instanceof Numeral ? String(amount) : amount;
	if (typeof text === 'string' && decimal.test(text)) {
		return text as Intl.StringNumericLiteral;
	}
	const value = amount instanceof Numeral ? amount.valueOf() : amount;
	return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}
