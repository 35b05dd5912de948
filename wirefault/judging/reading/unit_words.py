"""The words of running text that stand for a unit: by dimension and pint's name, a data table.

A word may stand for several units ("pounds"): what is asked for tells which. A word that means something
else more often ("in", "a", "at") stands for none.
"""

from __future__ import annotations

from collections.abc import Mapping

# dimension: unit=words that stand for it; by a dimension's first unit pint's other units of it are known
_TABLE = """
temperature: degC=c|°c|º c|ºc|˚c|° c|celsius|celcius|degree celsius|degrees celsius|degree c|degrees c|deg
c|deg. c|deg celsius|degs c|°celsius|° celsius|centigrade|degrees centigrade|celsius degrees|celsius
degree|grad celsius|grad c|degrés c|degrés celsius|grados c|gradi c|graus c|degre
celsius|degree_celsius|degrees_celsius|c°|摄氏度|℃|stopni c; degF=f|°f|ºf|˚f|° f|fahrenheit|farenheit|degree
fahrenheit|degrees fahrenheit|degrees f|degree f|deg f|deg. f|deg fahrenheit|°fahrenheit|°
fahrenheit|fahrenheit degrees|grad fahrenheit|degree_fahrenheit|华氏度|℉; kelvin=k|kelvins|degrees
kelvin|degree kelvin|°k|° k|kelvin degrees;
degree=°|º|˚|degrees|deg|deg.|degs|grad|grade|graden|grados|gradi|graus|degré|degrés|stopni|градусов|градуса|градус|度|도

length: meter=m|metre|metres|meters|mtr; millimeter=mm|millimetre|millimetres|millimeters;
centimeter=cm|centimetre|centimetres|centimeters; kilometer=km|kms|kilometre|kilometres|kilometers;
foot=ft|feet|ft.; inch=inches; yard=yd|yards; mile=mi|miles

duration: second=s|sec|secs|seconds; millisecond=ms|msec|milliseconds; minute=min|mins|minutes|min.;
hour=h|hr|hrs|hours; day=days; week=weeks; month=months; year=years|yrs|jahre|ans|años

speed: meter/second=m/s|mps|meter/sec|metres/sec|meters/sec|metres per second|meters per second|metre per
second|meter per second|m/sec|m per second|m s^-1|ms^-1; kilometer/hour=km/h|kph|kmh|kmph|km/hr|km per
hour|km an hour|kilometres per hour|kilometers per hour|kilometre per hour|kilometer per hour;
mile/hour=mph|mi/h|miles per hour|mile per hour|miles an hour; knot=kn|knots|kt|kts

pressure: hectopascal=hpa|hectopascals; pascal=pa|pascals; millibar=mbar|millibars|mb; bar=bars; mmHg=mmhg;
psi=psi

mass: kilogram=kg|kgs|kilo|kilos|kilograms|kilogrammes; gram=g|grams|grammes; pound=lb|lbs|pounds;
ounce=oz|ounces; metric_ton=t|tonne|tonnes|metric tons

area: meter**2=m^2|m²|sqm|square metres|square meters|square metre|square meter;
kilometer**2=km^2|km²|square kilometres|square kilometers|square kilometre|square kilometer; foot**2=sq
ft|square feet|square foot; hectare=ha|hectares; acre=acres

volume: liter=l|litre|litres|liters; milliliter=ml|millilitres|milliliters; gallon=gal|gallons;
meter**3=m^3|m³|cubic metres|cubic meters

energy: joule=j|joules; kilowatt_hour=kwh; kilocalorie=kcal

power: watt=w|watts; kilowatt=kw

frequency: hertz=hz; kilohertz=khz; megahertz=mhz; gigahertz=ghz

data: byte=bytes|b; kilobyte=kb; megabyte=mb; gigabyte=gb; terabyte=tb

share: percent=%|per cent|percents|percentage|percentage points|pct|pct.|prozent|v.h.|٪|процентов;
dimensionless=fraction|decimal fraction|as a fraction|ratio

currency: EUR=€|euro|euros|eur.|евро|欧元|ユーロ|유로|يورو; USD=$|us$|dollar|dollars|us dollars|u.s.
dollars|bucks|dólares|dólar|dollari|долларов|美元|ドル|달러|دولار; GBP=£|pound sterling|pounds
sterling|pounds|quid; JPY=¥|yen|円; CHF=francs|franken|swiss francs|sfr; INR=₹|rupees|rs; CNY=yuan|rmb|元;
KRW=₩; RUB=₽|roubles|rubles; PLN=zł|zloty; SEK=kronor; NOK=kroner; DKK=; CZK=kč; CAD=ca$|c$; AUD=a$|au$;
BRL=r$|reais; MXN=pesos
"""


def _units_of(described: str) -> dict[str, str]:
    pairs = (unit.partition("=") for unit in " ".join(described.split()).split("; "))
    return {name: words for name, _, words in pairs}


_DIMENSIONS = (block.partition(": ") for block in _TABLE.strip().split("\n\n"))
TABLE: Mapping[str, Mapping[str, str]] = {name: _units_of(units) for name, _, units in _DIMENSIONS}

# the hundredth parts of currencies
CENTS: Mapping[str, str] = {
    "EUR": "euro cents|euro cent|eurocents|eurocent|cents|cent|ct",
    "USD": "us cents|cents|cent|¢",
    "GBP": "pence|penny",
}

# what may stand behind a word for degrees
DEGREES_OF: Mapping[str, str] = {
    **dict.fromkeys(("c", "celsius", "centigrade", "celsjusza", "celsia", "цельсия", "цельсію"), "degC"),
    **dict.fromkeys(("f", "fahrenheit", "fahrenheita", "фаренгейта"), "degF"),
    **dict.fromkeys(("k", "kelvin"), "kelvin"),
}

_LOCALES = "de fr es it pt nl pl sv da nb fi cs tr ru uk zh ja ko ar el ro hu he hi id vi th"
LOCALES = tuple(_LOCALES.split())

# units by CLDR's names: what follows the first hyphen is a word of the table
_CLDR_UNITS = """
temperature-celsius temperature-fahrenheit temperature-kelvin length-meter length-centimeter
length-kilometer length-foot length-mile concentr-percent duration-second duration-minute duration-hour
duration-day duration-week duration-month duration-year speed-kilometer-per-hour speed-meter-per-second
mass-kilogram pressure-hectopascal
"""
CLDR_UNITS = tuple(_CLDR_UNITS.split())

# words of other languages that mean something else in English, or are too short to tell
_NO_UNITS = (
    "time pie stop fit den ore tag pi mil dia tim ora an j t d on mes anno ano år ar rok let dag per sat"
)
NO_UNITS = frozenset(_NO_UNITS.split())
