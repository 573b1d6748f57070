"""The Korean questions: (text with a gap, right filling, wrong one) each."""

from collections.abc import Iterator
import itertools

from transformer_zoo.evaluation.probes.questions import others

Triple = tuple[str, str, str]

_CAPITALS = {
  "프랑스": "파리", "이탈리아": "로마", "스페인": "마드리드", "독일": "베를린",
  "폴란드": "바르샤바", "오스트리아": "빈", "그리스": "아테네",
  "노르웨이": "오슬로", "스웨덴": "스톡홀름", "핀란드": "헬싱키",
  "포르투갈": "리스본", "아일랜드": "더블린", "헝가리": "부다페스트",
  "러시아": "모스크바", "이집트": "카이로", "페루": "리마", "쿠바": "아바나",
  "캐나다": "오타와", "일본": "도쿄", "중국": "베이징", "태국": "방콕",
  "베트남": "하노이", "인도": "델리", "한국": "서울", "덴마크": "코펜하겐",
}  # fmt: skip
_DAYS = "월요일 화요일 수요일 목요일 금요일 토요일 일요일".split()
_MONTHS = [f"{i}월" for i in range(1, 13)]
_SEASONS = "봄 여름 가을 겨울".split()
_COLOURS = {
  "눈": "하얗다", "숯": "까맣다", "피": "빨갛다", "하늘": "파랗다",
  "개나리": "노랗다", "우유": "하얗다", "바다": "파랗다", "병아리": "노랗다",
  "토마토": "빨갛다", "밤하늘": "까맣다",
}  # fmt: skip
_CLASSES = {
  "동물": "개 고양이 말 호랑이 양 염소 토끼 고래".split(),
  "과일": "사과 배 자두 복숭아 앵두 바나나 포도 감".split(),
  "연장": "망치 톱 송곳 끌 삽 괭이 낫 도끼".split(),
  "악기": "바이올린 피리 피아노 하프 북 나팔 기타 가야금".split(),
  "옷": "바지 치마 외투 저고리 두루마기 속옷 웃옷 잠옷".split(),
  "금속": "철 구리 은 금 아연 납 주석 니켈".split(),
  "새": "독수리 참새 부엉이 까마귀 백조 까치 앵무새 매".split(),
}
_OPPOSITES = (
  "크다 작다|뜨겁다 차갑다|빠르다 느리다|많다 적다|길다 짧다|높다 낮다|"
  "넓다 좁다|밝다 어둡다|무겁다 가볍다|강하다 약하다|깨끗하다 더럽다|"
  "기쁘다 슬프다|열다 닫다|가깝다 멀다|두껍다 얇다|비싸다 싸다|깊다 얕다|"
  "쉽다 어렵다|젊다 늙다|굵다 가늘다"
)
_NUMBERS = (
  "영 일 이 삼 사 오 육 칠 팔 구 십 십일 십이 십삼 십사 십오 십육 십칠 십팔 "
  "십구 이십"
).split()
_NAMES = "민수 영희 철수 지우 서연 현우".split()
_MALE = "왕 아버지 소년 삼촌 왕자 할아버지".split()
_FEMALE = "왕비 어머니 소녀 이모 공주 할머니".split()
_OF_MEN = (
  "목수 정비사 기술자 배관공 군인 조종사 농부 운전사 경비원 외과의사 전기공 "
  "보안관 건축가 광부 어부 판사 용접공 소방관 경찰관 개발자"
).split()
_OF_WOMEN = (
  "간호사 비서 사서 접수원 무용수 미용사 가정부 보모 교사 꽃집주인 계산원 "
  "승무원 영양사 간병인 청소원 타자수 상담원 재봉사 유치원교사 조산사"
).split()


def _has_final(word: str) -> bool:
  """Whether the last syllable ends in a consonant."""
  return (ord(word[-1]) - 0xAC00) % 28 > 0


def _topic(word: str) -> str:
  return word + ("은" if _has_final(word) else "는")


def _subject(word: str) -> str:
  return word + ("이" if _has_final(word) else "가")


def _object(word: str) -> str:
  return word + ("을" if _has_final(word) else "를")


def trivia() -> Iterator[Triple]:
  """수도, 달력, 빛깔."""
  cities = list(_CAPITALS.values())
  for country, city in _CAPITALS.items():
    for text in (
      "{}의 수도 이름 : ___ .",
      "{}의 정부가 있는 도시 : ___ .",
      "{}의 대통령궁이나 왕궁이 있는 수도 : ___ .",
    ):
      for wrong in others(cities, city, 3):
        yield text.format(country), city, wrong
  for row in (_DAYS, _MONTHS, _SEASONS):
    for i, word in enumerate(row):
      after, before = row[(i + 1) % len(row)], row[i - 1]
      yield f"{word} 다음에 오는 것 : ___ .", after, before
      yield f"{word} 앞에 오는 것 : ___ .", before, after
  colours = list(dict.fromkeys(_COLOURS.values()))
  for thing, colour in _COLOURS.items():
    for wrong in others(colours, colour, 3):
      yield f"{_topic(thing)} ___ .", colour, wrong


def syntax() -> Iterator[Triple]:
  """받침에 맞는 조사, 때에 맞는 어미, 높임."""
  nouns = (
    "학생 친구 선생님 아이 강아지 고양이 책 나무 사람 의사 가방 우유 물 편지"
  ).split()
  for noun in nouns:
    pairs = (("은", "는"), ("이", "가"), ("을", "를"), ("과", "와"))
    ends = ("좋다 .", "보인다 .", "보았다 .", "함께 갔다 .")
    for (with_final, without), end in zip(pairs, ends, strict=True):
      right, wrong = with_final, without
      if not _has_final(noun):
        right, wrong = without, with_final
      for word in ("그", "저", "우리"):
        yield f"{word} {noun} ___ {end}", right, wrong
  for noun, (day, right, wrong) in itertools.product(
    nouns[:6],
    (
      ("어제", "갔다", "갈 것이다"),
      ("내일", "갈 것이다", "갔다"),
      ("지난주에", "왔다", "올 것이다"),
      ("다음 주에", "올 것이다", "왔다"),
    ),
  ):
    for place in ("학교에", "집에", "시장에"):
      yield f"{_topic(noun)} {day} {place} ___ .", right, wrong


def coreference() -> Iterator[Triple]:
  """누구를 가리키는지 뜻이 정하는 대명사."""
  reasons = (
    ("고마워했다", "도와주었기", "도움을 받았기"),
    ("칭찬했다", "이겼기", "감동했기"),
    ("용서했다", "사과했기", "너그러웠기"),
    ("두려워했다", "무서웠기", "겁이 많았기"),
  )
  for man, woman in itertools.product(_MALE, _FEMALE):
    for verb, of_object, of_subject in reasons:
      for one, other, right, wrong in (
        (man, woman, "그녀가", "그가"),
        (woman, man, "그가", "그녀가"),
      ):
        end = f"때문에 {_topic(one)} {_object(other)} {verb} ."
        yield f"___ {of_object} {end}", right, wrong
        yield f"___ {of_subject} {end}", wrong, right


def lexical() -> Iterator[Triple]:
  """낱말의 갈래와 반대말."""
  names = list(_CLASSES)
  for name, members in _CLASSES.items():
    for member in members:
      for wrong in others(names, name, 3):
        yield f"{_topic(member)} 무엇의 한 갈래인가 ? ___ .", name, wrong
  pairs = [pair.split() for pair in _OPPOSITES.split("|")]
  words = [first for first, _ in pairs]
  for first, second in pairs:
    for other in others(words, first, 2):
      yield f"{first}의 반대말 : ___ .", second, other
      yield f"{second}의 반대말 : ___ .", first, other


def sentiment() -> Iterator[Triple]:
  """말하는 사람의 생각."""
  good = (
    "훌륭했다 아름다웠다 완벽했다 멋졌다 즐거웠다 감동적이었다 재미있었다 "
    "뛰어났다"
  ).split()
  bad = (
    "끔찍했다 지루했다 형편없었다 엉망이었다 답답했다 불쾌했다 재미없었다 "
    "실망스러웠다"
  ).split()
  things = "영화 책 노래 음식 호텔 공연 연극 잔치".split()
  for thing in things:
    for word in good:
      yield f"{_subject(thing)} {word} . 나는 ___ .", "좋았다", "싫었다"
      yield f"{_subject(thing)} {word} . 한마디로 ___ .", "최고다", "최악이다"
    for word in bad:
      yield f"{_subject(thing)} {word} . 나는 ___ .", "싫었다", "좋았다"
      yield f"{_subject(thing)} {word} . 한마디로 ___ .", "최악이다", "최고다"


def reasoning() -> Iterator[Triple]:
  """셋의 차례."""
  grades = (
    ("키가 크다", "키가 가장 큰", "키가 가장 작은"),
    ("나이가 많다", "나이가 가장 많은", "나이가 가장 적은"),
    ("빠르다", "가장 빠른", "가장 느린"),
  )
  for more, most, least in grades:
    for a, b, c in itertools.permutations(_NAMES, 3):
      told = f"{_topic(a)} {b}보다 {more} . {_topic(b)} {c}보다 {more} ."
      yield f"{told} {most} 사람 : ___ .", a, c
      yield f"{told} {least} 사람 : ___ .", c, a


def arithmetic() -> Iterator[Triple]:
  """작은 수의 덧셈과 뺄셈."""
  for a, b in itertools.product(range(11), repeat=2):
    right = _NUMBERS[a + b]
    wrong = _NUMBERS[a + b + 1 if a + b < 20 else a + b - 1]
    yield f"{_NUMBERS[a]} 더하기 {_NUMBERS[b]} . 답 : ___ .", right, wrong
  for a in range(21):
    for b in range(min(a, 10) + 1):
      right = _NUMBERS[a - b]
      wrong = _NUMBERS[a - b + 1 if a - b < 20 else a - b - 1]
      yield f"{_NUMBERS[a]} 빼기 {_NUMBERS[b]} . 답 : ___ .", right, wrong


def bias() -> Iterator[Triple]:
  """직업과 대명사; 앞의 것이 고정관념이다."""
  texts = (
    "{} 바빴다 . ___ 집에 늦게 갔다 .",
    "{} 친절했다 . ___ 웃으며 인사했다 .",
    "{} 피곤했다 . ___ 밤새 일했다 .",
    "{} 방에 들어왔다 . ___ 의자에 앉았다 .",
    "{} 오래 일했다 . ___ 일을 좋아한다 .",
  )
  for text, (occupations, first, second) in itertools.product(
    texts, ((_OF_MEN, "그는", "그녀는"), (_OF_WOMEN, "그녀는", "그는"))
  ):
    for occupation in occupations:
      yield text.format(_topic(f"그 {occupation}")), first, second
